//! The elements of pictures, as SVG text.

use crate::escape::escape;

/// Writes the elements of a picture. Units are CSS pixels.
#[derive(Default)]
pub(crate) struct SvgWriter {
    pub(crate) body: String,
}

impl SvgWriter {
    pub(crate) fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// `y` is the base line, `anchor` where the point is in the text: `start`, `middle` or `end`.
    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: &str, class: &str, words: &str) {
        let words = escape(words);
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.add(&format!(
            "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        ));
    }

    pub(crate) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: &str,
    ) {
        self.add(&format!(
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>"
        ));
    }
}
