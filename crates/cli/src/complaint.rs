//! What a person is told is one line, with nothing in it that a terminal obeys.

/// The longest complaint that is shown whole.
const MAX_COMPLAINT: usize = 1000;

/// Leaves out the numbers that Rust adds to what the system says: ` (os error 2)`.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, after)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                rest += after;
            }
            _ => rest = rest + " (os error " + part,
        }
    }
    rest
}

/// Names come from outside: line ends and control characters in them are shown, not obeyed.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        push_visible(&mut line, c);
        if line.len() > MAX_COMPLAINT {
            return line + "...";
        }
    }
    line
}

pub(crate) fn push_visible(text: &mut String, c: char) {
    if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_words_and_no_numbers() {
        assert_eq!(without_numbers("a: Is a directory (os error 21)"), "a: Is a directory");
        assert_eq!(without_numbers("a (os error 2); b (os error 13)."), "a; b.");
        assert_eq!(without_numbers("a (os error x)"), "a (os error x)");
    }

    #[test]
    fn a_complaint_is_one_line_whatever_is_in_it() {
        assert_eq!(one_line("a\nb\u{1b}[31m µs"), "a\\nb\\u{1b}[31m µs");
        assert_eq!(one_line(&"x".repeat(1 << 20)).len(), MAX_COMPLAINT + 4);
    }
}
