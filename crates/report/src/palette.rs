//! How a controller looks, the same in every picture: by colour, by dashes and by marker, so that
//! each of the three alone distinguishes the first seven. Which name has which place, `looks.js` says.

/// Colours on white after Okabe and Ito, darkened where a line would have a contrast below 3:1.
pub(crate) const ON_LIGHT: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#c4609a", "#b87d00", "#2f93cf", "#000000", "#8a7a00"];

/// The same order of hues on a dark ground, lightened where they would sink into it.
pub(crate) const ON_DARK: [&str; 8] =
    ["#3fa0e6", "#f07a32", "#1fbf92", "#e391c0", "#f2b134", "#a5dbff", "#f4f6f8", "#f0e442"];

/// Lengths of dash and gap in pixels; the first is a solid line.
const DASHES: [&[u8]; 7] =
    [&[], &[9, 4], &[2, 3], &[10, 3, 2, 3], &[5, 2], &[14, 3, 2, 3, 2, 3], &[16, 5]];

/// The markers' shapes.
const MARKERS: [&str; 8] =
    ["circle", "square", "triangle", "diamond", "wedge", "plus", "cross", "star"];

/// Index into [`ON_LIGHT`] and [`ON_DARK`].
pub(crate) fn colour(index: usize) -> usize {
    index % ON_LIGHT.len()
}

pub(crate) fn dashes(index: usize) -> &'static [u8] {
    // Seven against eight colours: 56 controllers pass before a pair comes again.
    DASHES[index % DASHES.len()]
}

pub(crate) fn marker(index: usize) -> &'static str {
    // Where a colour comes again it has the next marker: in a scatter there are no dashes.
    MARKERS[(index + index / MARKERS.len()) % MARKERS.len()]
}

/// The outline of a marker around the origin, as an SVG path. `plus` and `cross` are filled
/// outlines too, so that every marker is drawn in the same way.
pub(crate) fn marker_path(name: &str, radius: f64) -> String {
    let corners: &[(f64, f64)] = match name {
        "square" => &[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
        "triangle" => &[(0.0, -1.15), (1.05, 0.75), (-1.05, 0.75)],
        "diamond" => &[(0.0, -1.25), (1.05, 0.0), (0.0, 1.25), (-1.05, 0.0)],
        "wedge" => &[(0.0, 1.15), (1.05, -0.75), (-1.05, -0.75)],
        "plus" => &PLUS,
        "cross" => &CROSS,
        "star" => &STAR,
        _ => {
            return format!(
                "M{radius} 0A{radius} {radius} 0 1 1 -{radius} 0A{radius} {radius} 0 1 1 {radius} 0Z"
            );
        }
    };
    let point = |(x, y): &(f64, f64)| format!("{:.2} {:.2}", x * radius, y * radius);
    let points: Vec<String> = corners.iter().map(point).collect();
    format!("M{}Z", points.join("L"))
}

const PLUS: [(f64, f64); 12] = [
    (-0.35, -1.15),
    (0.35, -1.15),
    (0.35, -0.35),
    (1.15, -0.35),
    (1.15, 0.35),
    (0.35, 0.35),
    (0.35, 1.15),
    (-0.35, 1.15),
    (-0.35, 0.35),
    (-1.15, 0.35),
    (-1.15, -0.35),
    (-0.35, -0.35),
];

/// [`PLUS`] turned by 45 degrees.
const CROSS: [(f64, f64); 12] = [
    (-1.06, -0.57),
    (-0.57, -1.06),
    (0.0, -0.49),
    (0.57, -1.06),
    (1.06, -0.57),
    (0.49, 0.0),
    (1.06, 0.57),
    (0.57, 1.06),
    (0.0, 0.49),
    (-0.57, 1.06),
    (-1.06, 0.57),
    (-0.49, 0.0),
];

const STAR: [(f64, f64); 10] = [
    (0.0, -1.3),
    (0.33, -0.45),
    (1.24, -0.4),
    (0.53, 0.17),
    (0.76, 1.05),
    (0.0, 0.56),
    (-0.76, 1.05),
    (-0.53, 0.17),
    (-1.24, -0.4),
    (-0.33, -0.45),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_fifty_six_look_alike() {
        let mut seen = std::collections::HashSet::new();
        assert!((0..56).all(|index| seen.insert((colour(index), dashes(index)))));
        let mut seen = std::collections::HashSet::new();
        assert!((0..56).all(|index| seen.insert((colour(index), marker(index)))));
    }

    /// WCAG's relative luminance.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.039_28 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn every_line_has_a_contrast_of_three_to_one() {
        for (colours, ground) in [(ON_LIGHT, "#ffffff"), (ON_DARK, "#11151a")] {
            for colour in colours {
                let both = [luminance(colour), luminance(ground)];
                let contrast = (both[0].max(both[1]) + 0.05) / (both[0].min(both[1]) + 0.05);
                assert!(contrast >= 3.0, "{colour} on {ground}: {contrast}");
            }
        }
    }

    #[test]
    fn every_marker_has_its_own_outline() {
        let outlines: std::collections::HashSet<_> =
            MARKERS.iter().map(|name| marker_path(name, 5.0)).collect();
        assert_eq!(outlines.len(), MARKERS.len());
    }
}
