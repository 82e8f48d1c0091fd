//! Heatmaps as SVG.

use super::draw::MapPanel;
use super::map::Heatmap;
use crate::escape::escape;
use crate::svg_writer::SvgWriter;

/// One heatmap for a page, which has the title in its text and brings the colours: classes `h0`, ... for strokes, `f0`, ... for
/// fills, `axis` and `grid`.
pub(crate) fn inline(map: &Heatmap) -> String {
    let panel = MapPanel::of(map);
    let mut pen = SvgWriter::default();
    panel.draw(&mut pen);
    let (width, height) = (panel.width, panel.height);
    let title = escape(&map.title);
    format!(
        "<svg class=\"heat\" role=\"img\" aria-label=\"{title}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n{}</svg>\n",
        pen.body
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heatmap::colours::LEVELS;
    use crate::heatmap::example;

    #[test]
    fn a_map_has_axes_and_a_bar_of_all_levels() {
        let svg = inline(&example::matrix());
        for text in ["first 10 delays", ">29</text>", "from: delay [ms]"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(inline(&example::zoom()).contains("from: window [packets]"));
        assert_eq!(svg.matches("<rect class=\"f").count(), LEVELS);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(svg.len() < 400_000, "{}", svg.len());
    }

    #[test]
    fn names_from_outside_cannot_become_markup() {
        let mut map = example::zoom();
        map.title = "</text><script>".to_owned();
        let svg = inline(&map);
        assert!(!svg.contains("<script") && svg.contains("&lt;script"));
    }

    #[test]
    fn an_empty_map_says_so() {
        let svg = inline(&Heatmap { cells: Vec::new(), ..example::matrix() });
        assert!(svg.contains("nothing was seen here"));
        assert!(!svg.contains("<path") && !svg.contains("class=\"f0\""));
        assert!(!inline(&Heatmap::default()).contains("NaN"));
    }
}
