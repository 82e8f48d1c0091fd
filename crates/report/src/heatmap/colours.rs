//! The colour scale: from a light green over blue to nearly black on white, and the other way
//! round on a dark ground, so that large values stand out most on either.

/// Steps of the scale.
pub(super) const LEVELS: usize = 24;

/// On white. The first must differ from white: it shows that something was seen.
const ON_LIGHT: [[u8; 3]; 6] = [
    [0xc9, 0xea, 0xb6],
    [0x7f, 0xcd, 0xbb],
    [0x33, 0xa7, 0xc6],
    [0x22, 0x6f, 0xb0],
    [0x25, 0x34, 0x94],
    [0x06, 0x0f, 0x3d],
];

/// On the page's dark ground.
const ON_DARK: [[u8; 3]; 6] = [
    [0x26, 0x3a, 0x78],
    [0x22, 0x5e, 0xa8],
    [0x1f, 0x92, 0xc2],
    [0x55, 0xbf, 0xc0],
    [0xa9, 0xdf, 0xb0],
    [0xff, 0xff, 0xd9],
];

/// The colours of all levels as CSS variables `--h0`, `--h1`, and so on.
pub(crate) fn levels(dark: bool) -> String {
    let stops = if dark { &ON_DARK } else { &ON_LIGHT };
    (0..LEVELS).map(|level| format!("--h{level}:{};", hex(between(stops, level)))).collect()
}

/// The classes that pictures in a page use: `h0`, ... for strokes, `f0`, ... for fills.
pub(crate) fn level_classes() -> String {
    let class =
        |level| format!(".h{level}{{stroke:var(--h{level})}}.f{level}{{fill:var(--h{level})}}");
    (0..LEVELS).map(class).collect()
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn between(stops: &[[u8; 3]; 6], level: usize) -> [u8; 3] {
    let place = level.min(LEVELS - 1) as f64 / (LEVELS - 1) as f64 * (stops.len() - 1) as f64;
    let stop = (place as usize).min(stops.len() - 2);
    let share = place - stop as f64;
    let mix = |channel: usize| {
        let [low, high] = [stop, stop + 1].map(|stop| f64::from(stops[stop][channel]));
        (low + (high - low) * share).round() as u8
    };
    [0, 1, 2].map(mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_is_darker_on_white_and_lighter_on_dark() {
        let light = |stops: &[[u8; 3]; 6], level| {
            let [red, green, blue] = between(stops, level).map(f64::from);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        for level in 1..LEVELS {
            assert!(light(&ON_LIGHT, level) < light(&ON_LIGHT, level - 1), "{level}");
            assert!(light(&ON_DARK, level) > light(&ON_DARK, level - 1), "{level}");
        }
        assert_eq!(between(&ON_LIGHT, 0), ON_LIGHT[0]);
        assert_eq!(between(&ON_LIGHT, LEVELS - 1), ON_LIGHT[5]);
    }
}
