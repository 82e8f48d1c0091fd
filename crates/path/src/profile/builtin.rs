//! The profiles that come with the library.

use super::Profile;

/// Names of the built-in profiles.
pub const NAMES: [&str; 5] =
    ["lte-driving", "lte-stationary", "umts-driving", "hspa-walking", "5g-midband"];

const TEXTS: [&str; NAMES.len()] = [
    include_str!("lte-driving.profile"),
    include_str!("lte-stationary.profile"),
    include_str!("umts-driving.profile"),
    include_str!("hspa-walking.profile"),
    include_str!("5g-midband.profile"),
];

/// The built-in profile called `name`; its [`about`](Profile::about) says where it comes from.
///
/// # Panics
/// Never: a test reads every built-in.
pub fn builtin(name: &str) -> Option<Profile> {
    let which = NAMES.iter().position(|known| *known == name)?;
    Some(TEXTS[which].parse().expect("the built-in profiles are read by a test"))
}
