//! The profiles that come with the library.

use super::LinkProfile;

/// Names of the built-in profiles.
pub const NAMES: [&str; 13] = [
    "lte-driving",
    "lte-stationary",
    "umts-driving",
    "hspa-walking",
    "hspa-city",
    "hspa-highway",
    "hspa-fast",
    "hspa-beach",
    "hspa-merged",
    "5g-midband",
    "5g-static",
    "5g-driving",
    "leo-bent-pipe",
];

const TEXTS: [&str; NAMES.len()] = [
    include_str!("lte-driving.profile"),
    include_str!("lte-stationary.profile"),
    include_str!("umts-driving.profile"),
    include_str!("hspa-walking.profile"),
    include_str!("hspa-city.profile"),
    include_str!("hspa-highway.profile"),
    include_str!("hspa-fast.profile"),
    include_str!("hspa-beach.profile"),
    include_str!("hspa-merged.profile"),
    include_str!("5g-midband.profile"),
    include_str!("5g-static.profile"),
    include_str!("5g-driving.profile"),
    include_str!("leo-bent-pipe.profile"),
];

/// Returns the built-in profile `name`; its [`about`](LinkProfile::about) names its source.
///
/// # Panics
/// Never: a test reads every built-in.
pub fn builtin(name: &str) -> Option<LinkProfile> {
    let which = NAMES.iter().position(|known| *known == name)?;
    Some(TEXTS[which].parse().expect("the built-in profiles are read by a test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_reads_and_is_in_the_written_form() {
        for (name, text) in NAMES.iter().zip(TEXTS) {
            let profile = builtin(name).unwrap();
            assert_eq!(profile.to_string(), text, "{name}");
            assert!(!profile.about().is_empty());
        }
        assert_eq!(builtin("lte"), None);
    }

    #[test]
    fn built_ins_say_whether_they_are_fitted() {
        let about = |name| builtin(name).unwrap().about().to_owned();
        for name in NAMES {
            let is_assumed = ["lte-stationary", "5g-midband"].contains(&name);
            let begins = if is_assumed { "not fitted" } else { "fitted to" };
            assert!(about(name).starts_with(begins), "{name}");
        }
    }
}
