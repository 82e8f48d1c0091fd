//! The environment variables by which the launcher configures the preloaded library.

use crate::message::Token;

/// The control socket's abstract name, without the leading zero; if there are several, a comma and
/// their number, see [`worker_name`]. It is no secret: everyone who lists the sockets sees
/// it.
pub const CONTROL: &str = "CELLPACE_CONTROL";
/// The [`Token`] in hexadecimal, which a client needs beside the name.
pub const TOKEN: &str = "CELLPACE_TOKEN";
/// The [`Rules`](crate::Rules) as text.
pub const RULES: &str = "CELLPACE_RULES";
/// Where the library is, instead of where it is looked for.
pub const LIBRARY: &str = "CELLPACE_PRELOAD";

/// Maximum number of control sockets.
pub const MAX_WORKERS: u32 = 64;

/// The contents of [`CONTROL`].
pub fn control_text(name: &str, workers: u32) -> String {
    if workers == 1 { name.to_owned() } else { format!("{name},{workers}") }
}

/// Reads it: a name, and how many sockets there are. Allocates nothing.
pub fn parse_control(text: &[u8]) -> Option<(&[u8], u32)> {
    let Some(comma) = text.iter().rposition(|byte| *byte == b',') else { return Some((text, 1)) };
    let number = &text[comma + 1..];
    let is_number = (1..=2).contains(&number.len()) && number.iter().all(u8::is_ascii_digit);
    if !is_number {
        return None;
    }
    let workers = number.iter().fold(0, |all, digit| all * 10 + u32::from(digit - b'0'));
    (2..=MAX_WORKERS).contains(&workers).then_some((&text[..comma], workers))
}

/// What stands behind the name for one of several sockets, counted from 0: `/07`. The first
/// has the bare name.
pub fn worker_name(worker: u32) -> [u8; 3] {
    [b'/', b'0' + (worker / 10 % 10) as u8, b'0' + (worker % 10) as u8]
}

/// The token as text.
pub fn token_text(token: &Token) -> String {
    token.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a token's text. Allocates nothing.
pub fn parse_token(text: &[u8]) -> Option<Token> {
    let mut token = Token::default();
    if text.len() != 2 * token.len() {
        return None;
    }
    for (byte, digits) in token.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = [digits[0], digits[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_and_of_several_sockets_survive_their_text() {
        for workers in [1, 2, 9, 10, 64] {
            let text = control_text("cellpace-run/1f", workers);
            let read = parse_control(text.as_bytes());
            assert_eq!(read, Some((b"cellpace-run/1f".as_slice(), workers)), "{text}");
        }
        for wrong in ["x,", "x,0", "x,1", "x,65", "x,164", "x,+2", "x,2,", "x,a"] {
            assert_eq!(parse_control(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(worker_name(7), *b"/07");
        assert_eq!(worker_name(63), *b"/63");
    }

    #[test]
    fn a_token_survives_its_text() {
        let token: Token = std::array::from_fn(|index| (index as u8).wrapping_mul(17));
        assert_eq!(parse_token(token_text(&token).as_bytes()), Some(token));
        let zeros = "0".repeat(62);
        for wrong in [String::new(), zeros.clone(), format!("zz{zeros}"), format!("+0{zeros}")] {
            assert_eq!(parse_token(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
