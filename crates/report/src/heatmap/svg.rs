//! Heatmaps as SVG.

use super::colours::{LEVELS, hex, on_light};
use super::draw::MapPanel;
use super::map::Heatmap;
use crate::escape::escape;
use crate::svg_writer::SvgWriter;

const STYLE: &str = "text{font:12px Helvetica,Arial,'Liberation Sans',sans-serif;fill:#333}\
.title{font-size:14px;font-weight:bold;fill:#000}.axis{fill:#888}.grid{fill:#e0e4e8}";

/// Heatmaps side by side as one picture on white, in the order given.
pub fn heatmap_svg(maps: &[Heatmap]) -> String {
    let panels: Vec<MapPanel<'_>> = maps.iter().map(|map| MapPanel::of(map, true)).collect();
    let mut pen = SvgWriter::default();
    let mut x = 0.0;
    for panel in &panels {
        panel.draw(&mut pen, x);
        x += panel.width;
    }
    let height = panels.iter().map(|panel| panel.height).fold(0.0, f64::max);
    let levels: String = (0..LEVELS)
        .map(|level| {
            let colour = hex(on_light(level));
            format!(".h{level}{{stroke:{colour}}}.f{level}{{fill:{colour}}}")
        })
        .collect();
    pen.document((x, height), &format!("{STYLE}{levels}"))
}

/// One heatmap for a page, which has the title in its text and brings the colours: classes `h0`, ... for strokes, `f0`, ... for
/// fills, `axis` and `grid`.
pub(crate) fn inline(map: &Heatmap) -> String {
    let panel = MapPanel::of(map, false);
    let mut pen = SvgWriter::default();
    panel.draw(&mut pen, 0.0);
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
    use crate::heatmap::example;

    #[test]
    fn maps_stand_side_by_side_with_titles_axes_and_bars() {
        let svg = heatmap_svg(&[example::matrix(), example::zoom()]);
        for text in ["first 10 delays", "21 to 22 ms", ">29</text>", "from: window [packets]"] {
            assert!(svg.contains(text), "{text}");
        }
        // A bar of all levels for each.
        assert_eq!(svg.matches("<rect class=\"f").count(), 2 * LEVELS);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(svg.len() < 400_000, "{}", svg.len());
    }

    #[test]
    fn names_from_outside_cannot_become_markup() {
        let mut map = example::zoom();
        map.title = "</text><script>".to_owned();
        let svg = heatmap_svg(&[map.clone()]);
        assert!(!svg.contains("<script") && svg.contains("&lt;script"));
        assert!(!inline(&map).contains("<script"));
    }

    #[test]
    fn an_empty_map_says_so() {
        let map = Heatmap { cells: Vec::new(), ..example::matrix() };
        let svg = heatmap_svg(&[map]);
        assert!(svg.contains("nothing was seen here"));
        assert!(!svg.contains("<path") && !svg.contains("class=\"f0\""));
        assert!(!heatmap_svg(&[Heatmap::default()]).contains("NaN"));
        assert!(heatmap_svg(&[]).starts_with("<svg"));
    }
}
