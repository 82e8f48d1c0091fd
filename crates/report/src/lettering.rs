//! Words of a picture as outlines, from a font of the program's own: so that they look the same on every
//! machine, also where there is no font. Laying out text in general takes 2 MB of program; the words of
//! our charts are short, run from left to right, and need no ligatures.

use std::fmt::Write;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::svg_writer::TextElement;

const REGULAR: &[u8] = include_bytes!("../assets/font/DejaVuSansCondensed.ttf");
const BOLD: &[u8] = include_bytes!("../assets/font/DejaVuSansCondensed-Bold.ttf");

/// The picture with outlines in the place of its words. Letters that the font lacks are boxes.
pub(crate) fn outlined(svg: &str) -> String {
    let Ok(faces) =
        [REGULAR, BOLD].map(|font| Face::parse(font, 0)).into_iter().collect::<Result<Vec<_>, _>>()
    else {
        return svg.to_owned();
    };
    let mut drawn = String::with_capacity(4 * svg.len());
    for line in svg.lines() {
        match TextElement::read(line) {
            Some(words) => drawn += &path(&words, &faces[usize::from(words.is_bold())]),
            None => drawn += line,
        }
        drawn.push('\n');
    }
    drawn
}

/// The words as one path, with the class of their element.
fn path(words: &TextElement<'_>, face: &Face<'_>) -> String {
    let scale = words.size() / f32::from(face.units_per_em());
    let glyphs: Vec<GlyphId> =
        words.text.chars().map(|letter| face.glyph_index(letter).unwrap_or_default()).collect();
    let advance = |glyph: &GlyphId| f32::from(face.glyph_hor_advance(*glyph).unwrap_or(0)) * scale;
    let width: f32 = glyphs.iter().map(advance).sum();
    let start = match words.anchor {
        "middle" => words.x - width / 2.0,
        "end" => words.x - width,
        _ => words.x,
    };
    let mut pen = Pen { path: String::new(), x: start, y: words.y, scale };
    for glyph in &glyphs {
        // A blank has no outline.
        let _ = face.outline_glyph(*glyph, &mut pen);
        pen.x += advance(glyph);
    }
    format!("<path fill=\"#333\" class=\"{}\" d=\"{}\"/>", words.class, pen.path)
}

/// Turns a glyph's outline into path data at its place. Fonts count upwards, pictures downwards.
struct Pen {
    path: String,
    x: f32,
    y: f32,
    scale: f32,
}

impl Pen {
    fn add(&mut self, command: char, points: &[(f32, f32)]) {
        self.path.push(command);
        for (x, y) in points {
            let (x, y) = (self.x + x * self.scale, self.y - y * self.scale);
            let _ = write!(self.path, "{x:.2} {y:.2} ");
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.add('M', &[(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.add('L', &[(x, y)]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.add('Q', &[(x1, y1), (x, y)]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.add('C', &[(x1, y1), (x2, y2), (x, y)]);
    }

    fn close(&mut self) {
        self.path.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, charts, example, to_json};

    #[test]
    fn all_words_of_all_charts_become_outlines() {
        let document = Document::read("a.json", &to_json(&example::large("drive", 3, 2, 20)));
        for (name, svg) in charts(&[document.unwrap()]).unwrap() {
            let words = svg.matches("<text").count();
            let drawn = outlined(&svg);
            assert!(words > 10 && !drawn.contains("<text"), "{name}");
            assert_eq!(drawn.matches("<path fill=\"#333\" class=").count(), words, "{name}");
        }
    }

    #[test]
    fn words_stand_at_their_anchor() {
        let line = |anchor: &str| {
            format!("<text x=\"100.0\" y=\"20.0\" text-anchor=\"{anchor}\">HH</text>")
        };
        let first = |anchor: &str| -> f32 {
            let drawn = outlined(&line(anchor));
            let (_, path) = drawn.split_once("d=\"M").unwrap();
            path.split(' ').next().unwrap().parse().unwrap()
        };
        let [start, middle, end] = ["start", "middle", "end"].map(first);
        assert!(start > 100.0 && start < 103.0, "{start}");
        assert!(end > 80.0 && end < 90.0 && (middle - (start + end) / 2.0).abs() < 0.02);
    }
}
