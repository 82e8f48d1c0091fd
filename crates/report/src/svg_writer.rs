//! The elements of pictures, as SVG text.

use crate::escape::escape;
#[cfg(feature = "png")]
use crate::escape::unescape;

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

    /// Returns a file of its own, on white.
    pub(crate) fn document(&self, (width, height): (f64, f64), style: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <style>{style}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// An element that [`SvgWriter::text`] has written, read back.
#[cfg(feature = "png")]
pub(crate) struct TextElement<'a> {
    pub(crate) class: &'a str,
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) anchor: &'a str,
    pub(crate) text: String,
}

#[cfg(feature = "png")]
impl<'a> TextElement<'a> {
    /// `None` for any other element.
    pub(crate) fn read(line: &'a str) -> Option<Self> {
        let (attributes, text) = line.strip_prefix("<text")?.split_once('>')?;
        let text = text.strip_suffix("</text>")?;
        let value = |name: &str| {
            let (_, rest) = attributes.split_once(&format!(" {name}=\""))?;
            Some(rest.split_once('"')?.0)
        };
        Some(Self {
            class: value("class").unwrap_or_default(),
            x: value("x")?.parse().ok()?,
            y: value("y")?.parse().ok()?,
            anchor: value("text-anchor")?,
            text: unescape(text),
        })
    }

    /// In CSS pixels, as the styles of pictures say.
    pub(crate) fn size(&self) -> f32 {
        if self.class == "title" { 14.0 } else { 12.0 }
    }

    pub(crate) fn is_bold(&self) -> bool {
        ["title", "label", "better-word"].contains(&self.class)
    }
}
