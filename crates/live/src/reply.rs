//! Answers in HTTP/1.1. Each ends its connection.

/// Content types.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const METRICS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";

/// What browsers may do with the page: run its own scripts, and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A whole answer; `body` is left out for HEAD, its length is not.
pub(crate) fn reply(status: &str, kind: &str, body: &str, is_head: bool) -> Vec<u8> {
    let length = format!("Content-Length: {}\r\n", body.len());
    let mut reply = head(status, kind, &length).into_bytes();
    if !is_head {
        reply.extend_from_slice(body.as_bytes());
    }
    reply
}

/// A refusal with a line of text.
pub(crate) fn refusal(status: &str) -> Vec<u8> {
    let text = status.split_once(' ').map_or(status, |(_, text)| text).to_ascii_lowercase() + "\n";
    let more = match &status[..3] {
        "401" => "WWW-Authenticate: Bearer\r\n",
        "405" => "Allow: GET, HEAD\r\n",
        "503" => "Retry-After: 5\r\n",
        _ => "",
    };
    let fields = format!("{more}Content-Length: {}\r\n", text.len());
    (head(status, TEXT, &fields) + &text).into_bytes()
}

/// The head of an answer, its last empty line included. Without a length the body ends with the
/// connection.
pub(crate) fn head(status: &str, kind: &str, fields: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{fields}Connection: close\r\n\
         Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_the_body_also_for_head() {
        let get = String::from_utf8(reply("200 OK", JSON, "{\"é\":1}", false)).unwrap();
        let head = String::from_utf8(reply("200 OK", JSON, "{\"é\":1}", true)).unwrap();
        assert_eq!(get, format!("{head}{{\"é\":1}}"));
        assert!(head.ends_with("\r\n\r\n") && head.contains("\r\nContent-Length: 8\r\n"));
        let refused = String::from_utf8(refusal("401 Unauthorized")).unwrap();
        assert!(refused.ends_with("\r\n\r\nunauthorized\n"), "no hint: {refused}");
        assert!(refused.contains("WWW-Authenticate: Bearer\r\n"));
    }
}
