//! Names in front of a colon, and guesses at what a misspelt one was meant to be.

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

/// The candidate nearest to `word` in edits, whatever the case, if one is near enough to be what
/// was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Counting edits takes memory in proportion to both lengths, and no name is that long.
    if word.len() > 64 {
        return None;
    }
    let word = &word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, &candidate.to_lowercase()), candidate))
        .min()
        .filter(|(edits, candidate)| *edits <= 1 + candidate.len().max(word.len()) / 3)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_silent_when_nothing_is_near() {
        assert_eq!(nearest("cubik", ["cubic", "copa"]), Some("cubic"));
        assert_eq!(nearest("warp-drive", ["cubic", "copa"]), None);
        assert_eq!(nearest("R", ["m", "r"]), Some("r"));
        assert_eq!(nearest("CUBIC", ["cubic", "copa"]), Some("cubic"));
        assert_eq!(nearest(&"cubic".repeat(1 << 20), ["cubic"]), None);
    }
}
