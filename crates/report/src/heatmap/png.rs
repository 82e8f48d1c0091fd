//! Heatmaps as PNG, for whatever takes no SVG: twice as many pixels as the SVG has units.

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};

use super::Heatmap;
use super::colours::on_light;
use super::draw::{Anchor, Ink, Panel, Pen};
use super::grid::Stretch;
use crate::ReportError;

const SCALE: f64 = 2.0;

/// Latin letters of DejaVu Sans; see `assets/THIRD-PARTY.md`.
const FONT: &[u8] = include_bytes!("../../assets/dejavu/DejaVuSans-subset.ttf");

/// Heatmaps side by side as one picture on white, in the order given.
///
/// # Errors
/// Only where the feature `png` is off.
pub fn heatmap_png(maps: &[Heatmap]) -> Result<Vec<u8>, ReportError> {
    let panels: Vec<Panel<'_>> = maps.iter().map(Panel::of).collect();
    let width: f64 = panels.iter().map(|panel| panel.width).sum();
    let height = panels.iter().map(|panel| panel.height).fold(0.0, f64::max);
    let mut pen = PngPen::new(width.max(1.0), height.max(1.0));
    let mut x = 0.0;
    for panel in &panels {
        panel.draw(&mut pen, x);
        x += panel.width;
    }
    Ok(pen.encode())
}

struct PngPen {
    font: FontRef<'static>,
    width: usize,
    height: usize,
    /// Red, green, blue.
    pixels: Vec<u8>,
}

impl PngPen {
    fn new(width: f64, height: f64) -> Self {
        let (width, height) = ((width * SCALE) as usize, (height * SCALE) as usize);
        let font = FontRef::try_from_slice(FONT).expect("the font is part of the program");
        Self { font, width, height, pixels: vec![0xff; 3 * width * height] }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let metre = (96.0 * SCALE / 0.0254) as u32;
        let dense = png::PixelDimensions { xppu: metre, yppu: metre, unit: png::Unit::Meter };
        encoder.set_pixel_dims(Some(dense));
        let writer = encoder.write_header();
        writer
            .and_then(|mut writer| writer.write_image_data(&self.pixels))
            .expect("memory takes everything, and the size is right");
        out
    }

    fn fill(&mut self, from: (f64, f64), to: (f64, f64), colour: [u8; 3]) {
        let within = |value: f64, most: usize| (value.round().max(0.0) as usize).min(most);
        let (left, right) = (within(from.0, self.width), within(to.0, self.width));
        for y in within(from.1, self.height)..within(to.1, self.height) {
            let row = 3 * y * self.width;
            let pixels = &mut self.pixels[row + 3 * left..row + 3 * right.max(left)];
            pixels.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&colour));
        }
    }

    fn blend(&mut self, x: i64, y: i64, colour: [u8; 3], share: f32) {
        let inside = |value: i64, most: usize| usize::try_from(value).ok().filter(|v| *v < most);
        let (Some(x), Some(y)) = (inside(x, self.width), inside(y, self.height)) else { return };
        let place = 3 * (y * self.width + x);
        for (pixel, colour) in self.pixels[place..place + 3].iter_mut().zip(colour) {
            let (old, new) = (f32::from(*pixel), f32::from(colour));
            *pixel = (old + (new - old) * share.clamp(0.0, 1.0)).round() as u8;
        }
    }

    /// The letters of a line from `(0, 0)` on, and its width.
    fn line(&self, words: &str, size: f64) -> (Vec<Glyph>, f64) {
        // The font's own measure of height is not the size of an em.
        let em = self.font.units_per_em().unwrap_or(1.0);
        let scale = PxScale::from((size * SCALE) as f32 * self.font.height_unscaled() / em);
        let font = self.font.as_scaled(scale);
        let (mut glyphs, mut x) = (Vec::new(), 0.0);
        for letter in words.chars() {
            let letter = if letter.is_control() { '\u{fffd}' } else { letter };
            let id = font.glyph_id(letter);
            glyphs.push(id.with_scale_and_position(scale, point(x, 0.0)));
            x += font.h_advance(id);
        }
        (glyphs, f64::from(x))
    }
}

impl Pen for PngPen {
    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), ink: Ink) {
        let (left, top) = ((x * SCALE).round(), (y * SCALE).round());
        // Lines are thinner than a unit; they must not vanish.
        let right = ((x + width) * SCALE).round().max(left + 1.0);
        let bottom = ((y + height) * SCALE).round().max(top + 1.0);
        self.fill((left, top), (right, bottom), colour(ink));
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, ink: Ink, words: &str) {
        let size = if ink == Ink::Title { 14.0 } else { 11.5 };
        let (glyphs, width) = self.line(words, size);
        let shift = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = ((x * SCALE - shift).round() as i64, (y * SCALE).round() as i64);
        let colour = colour(ink);
        for glyph in glyphs {
            let Some(outline) = self.font.outline_glyph(glyph) else { continue };
            let bounds = outline.px_bounds();
            let (left, top) = (x + bounds.min.x as i64, y + bounds.min.y as i64);
            outline.draw(|dx, dy, share| {
                self.blend(left + i64::from(dx), top + i64::from(dy), colour, share);
            });
        }
    }

    fn stretches(&mut self, (x, y): (f64, f64), cell: (f64, f64), level: usize, of: &[Stretch]) {
        let colour = on_light(level);
        for Stretch { row, column, len } in of {
            let left = (x + cell.0 * f64::from(*column)) * SCALE;
            let right = left + cell.0 * f64::from(*len) * SCALE;
            let top = (y + cell.1 * f64::from(*row)) * SCALE;
            self.fill((left, top), (right, top + cell.1 * SCALE), colour);
        }
    }
}

fn colour(ink: Ink) -> [u8; 3] {
    match ink {
        Ink::Title => [0; 3],
        Ink::Text => [0x33; 3],
        Ink::Axis => [0x88; 3],
        Ink::Grid => [0xe0, 0xe4, 0xe8],
        Ink::Level(level) => on_light(level),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heatmap::colours::LEVELS;
    use crate::heatmap::example;

    /// Width and pixels.
    fn decoded(bytes: &[u8]) -> (usize, Vec<[u8; 3]>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
        let pixels = pixels.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
        (info.width as usize, pixels.collect())
    }

    #[test]
    fn every_cell_is_a_square_of_whole_pixels() {
        let map = example::zoom();
        let (_, pixels) = decoded(&heatmap_png(&[map]).unwrap());
        // The diagonal is darkest: two thirds of 36 cells of 21 x 21 pixels, and a step of the bar.
        let darkest = pixels.iter().filter(|pixel| **pixel == on_light(LEVELS - 1)).count();
        let cells = (0..36).filter(|i| (i * 37) % 3 > 0).count() * 21 * 21;
        let bar = 28 * 20;
        assert!((cells..=cells + bar).contains(&darkest), "{darkest} {cells}");
    }

    #[test]
    fn text_has_ink() {
        let mut map = example::zoom();
        map.cells.clear();
        map.columns.labels.clear();
        map.rows.labels.clear();
        let dark = |map: &Heatmap| {
            let (_, pixels) = decoded(&heatmap_png(std::slice::from_ref(map)).unwrap());
            pixels.iter().filter(|pixel| pixel[0] < 0x80).count()
        };
        let with = dark(&map);
        map.title.clear();
        let without = dark(&map);
        assert!(with > without + 200, "{with} {without}");
    }

    #[test]
    fn odd_maps_are_drawn() {
        for maps in [&[][..], &[Heatmap::default()], &[example::matrix(), Heatmap::default()]] {
            let (width, pixels) = decoded(&heatmap_png(maps).unwrap());
            assert!(width > 0 && !pixels.is_empty());
        }
        let title = "a\u{7}\u{1f600}日".to_owned();
        decoded(&heatmap_png(&[Heatmap { title, ..example::zoom() }]).unwrap());
    }
}
