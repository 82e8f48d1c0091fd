//! How the launcher tells the preloaded library what it must know: the environment.

use crate::message::Token;

/// The control socket's abstract name, without the leading zero. It is no secret: whoever looks
/// at the list of sockets sees it.
pub const CONTROL: &str = "CELLPACE_CONTROL";
/// The [`Token`] in hexadecimal: what a client must know beside the name.
pub const TOKEN: &str = "CELLPACE_TOKEN";
/// The [`Rules`](crate::Rules) as text.
pub const RULES: &str = "CELLPACE_RULES";
/// Where the library is, instead of where it is looked for.
pub const LIBRARY: &str = "CELLPACE_PRELOAD";

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
    fn a_token_survives_its_text() {
        let token: Token = std::array::from_fn(|index| index as u8 * 17);
        assert_eq!(parse_token(token_text(&token).as_bytes()), Some(token));
        for wrong in
            ["", "00", "zz112233445566778899aabbccddeeff", "+0112233445566778899aabbccddeeff"]
        {
            assert_eq!(parse_token(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
