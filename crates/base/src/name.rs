//! Names in front of a colon, those that a program adds, and guesses at what a misspelt one was meant to be.

use thiserror::Error;

/// The name in front of the colon and the text behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitName<'a> {
    /// In front of the first colon.
    pub name: &'a str,
    /// Behind the first colon; empty if there is none.
    pub rest: &'a str,
}

/// Splits `NAME:rest` at the first colon.
pub fn split_name(text: &str) -> SplitName<'_> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    SplitName { name: name.trim(), rest: rest.trim() }
}

/// Why a program's own controllers or queues were not registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is one of that name.
    #[error("the name `{0}` is taken")]
    Taken(&'static str),
    /// The name cannot stand in front of a colon.
    #[error("a name has lower-case letters, digits, `-` and `_`, unlike `{0}`")]
    Name(&'static str),
    /// A process registers once.
    #[error("names are registered once, before any is looked for")]
    Twice,
}

/// Checks names that a program adds to those that are `taken`.
///
/// # Errors
/// When one is none, is taken or is given twice.
pub fn check_own_names(own: &[&'static str], taken: &[&'static str]) -> Result<(), RegisterError> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    for (index, name) in own.iter().copied().enumerate() {
        if name.is_empty() || !name.chars().all(is_part) {
            return Err(RegisterError::Name(name));
        }
        if taken.contains(&name) || own[..index].contains(&name) {
            return Err(RegisterError::Taken(name));
        }
    }
    Ok(())
}

/// Letters from which on the beginning of a name stands for it.
const MIN_BEGINNING: usize = 3;

/// The candidate that `word` is the beginning of, up to a hyphen; else the nearest one in edits, if it is
/// near enough to be what was meant. Case does not count.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Counting edits takes memory in proportion to both lengths, and no name is that long.
    if word.len() > 64 {
        return None;
    }
    let word = &word.to_lowercase();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let begins = |candidate: &&str| {
        let rest = candidate.to_lowercase().strip_prefix(&**word).map(|rest| rest.starts_with('-'));
        word.len() >= MIN_BEGINNING && rest == Some(true)
    };
    if let Some(whole) = candidates.iter().copied().find(begins) {
        return Some(whole);
    }
    // Of two that are as near, the one that begins with what was written, then that with fewer letters that were not.
    let tie = |candidate: &str| {
        let strange = candidate.chars().filter(|c| !word.contains(*c)).count();
        (!candidate.starts_with(&**word), strange)
    };
    candidates
        .into_iter()
        .map(|candidate| (candidate.to_lowercase(), candidate))
        .map(|(lower, candidate)| {
            (strsim::damerau_levenshtein(word, &lower), tie(&lower), candidate)
        })
        .min()
        .filter(|(edits, _, candidate)| *edits <= 1 + candidate.len().max(word.len()) / 3)
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_silent_when_nothing_is_near() {
        assert_eq!(nearest("cubik", ["cubic", "copa"]), Some("cubic"));
        assert_eq!(nearest("warp-drive", ["cubic", "copa"]), None);
        assert_eq!(nearest("R", ["m", "r"]), Some("r"));
        assert_eq!(nearest("rat", ["rate", "rtt"]), Some("rate"));
        assert_eq!(nearest("rrt", ["queue", "rrc", "rtt"]), Some("rtt"));
        assert_eq!(nearest("CUBIC", ["cubic", "copa"]), Some("cubic"));
        let links = ["step", "lte-driving", "lte-stationary", "radio"];
        assert_eq!(nearest("LTE", links), Some("lte-driving"));
        assert_eq!(nearest("ste", links), Some("step"));
        assert_eq!(nearest(&"cubic".repeat(1 << 20), ["cubic"]), None);
    }
}
