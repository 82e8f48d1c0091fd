//! Charts as PNG, drawn of their SVG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use crate::ReportError;
use crate::lettering::outlined;

/// Pixels of the picture for one of the SVG: sharp on screens and on paper.
const SCALE: f32 = 2.0;

/// Most pixels along a side.
const MAX_SIDE: f32 = 16_384.0;

/// A chart of [`charts`](crate::charts) as a PNG file, twice as wide and high as the SVG says. Letters that the
/// font lacks (it has those of Western European languages) are boxes.
///
/// # Errors
/// When `svg` is no picture, or a side of it is longer than 8192.
pub fn png(svg: &str) -> Result<Vec<u8>, ReportError> {
    let wrong = |why: String| ReportError::Picture { why };
    let tree = Tree::from_str(&outlined(svg), &Options::default())
        .map_err(|error| wrong(error.to_string()))?;
    let size = tree.size();
    let sides = [size.width(), size.height()].map(|side| (side * SCALE).ceil());
    if sides.iter().any(|side| *side > MAX_SIDE) {
        return Err(wrong(format!("{} by {} pixels are too many", sides[0], sides[1])));
    }
    let pixels = Pixmap::new(sides[0] as u32, sides[1] as u32);
    let mut pixels = pixels.ok_or_else(|| wrong("it has no size".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg_writer::SvgWriter;
    use crate::{Document, charts, example, to_json};

    fn pixels(svg: &str) -> Pixmap {
        Pixmap::decode_png(&png(svg).unwrap()).unwrap()
    }

    /// Pixels that are not white.
    fn ink(pixels: &Pixmap) -> usize {
        pixels.pixels().iter().filter(|pixel| pixel.red() < 128).count()
    }

    #[test]
    fn words_are_drawn_without_any_font_of_the_machine() {
        let svg = |words: &str, class: &str| {
            let mut pen = SvgWriter::default();
            pen.text((5.0, 25.0), "start", class, words);
            pen.document((200.0, 40.0), "")
        };
        assert_eq!(ink(&pixels(&svg("", ""))), 0);
        let [plain, bold] = ["", "label"].map(|class| ink(&pixels(&svg("Mbit/s, µs → …", class))));
        assert!(plain > 300 && bold > plain + 50, "{plain} and {bold} pixels");
    }

    #[test]
    fn every_chart_becomes_a_picture_twice_its_size() {
        let document = Document::read("a.json", &to_json(&example::large("drive", 3, 1, 20)));
        for (name, svg) in charts(&[document.unwrap()]).unwrap() {
            let pixels = pixels(&svg);
            assert!(pixels.width() >= 1_000 && ink(&pixels) > 3_000, "{name}");
        }
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let wide = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9000\" height=\"9000\"/>";
        assert!(png("<p>").is_err());
        assert!(png(wide).unwrap_err().to_string().contains("18000 by 18000 pixels are too many"));
    }
}
