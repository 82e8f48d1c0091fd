//! Words of a command line.

/// `word` as a POSIX shell reads it: in quotes, if a sign in it means something to a shell.
pub fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=:/.,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        assert_eq!(shell_quoted("harq:bler=20%,rtt=4ms"), "harq:bler=20%,rtt=4ms");
        assert_eq!(shell_quoted(""), "''");
        assert_eq!(shell_quoted("my $trace's"), "'my $trace'\\''s'");
    }
}
