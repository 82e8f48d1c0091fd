//! Reads the head of a request: the small part of HTTP/1.1 (RFC 9112) that this needs.

/// The longest head of a request, line and fields; a browser's has some hundred bytes.
pub const MAX_HEAD_BYTES: usize = 8 << 10;

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The answer's head is wanted without its body.
    pub is_head: bool,
    /// The target without its query; begins with a slash.
    pub path: String,
    /// Names and values of the query, decoded.
    pub query: Vec<(String, String)>,
    /// The field `Host`.
    pub host: Option<String>,
    /// The field `Origin`, which browsers send with what another page asks for.
    pub origin: Option<String>,
    /// The token of the field `Authorization: Bearer`.
    pub token: Option<String>,
    /// The field `Last-Event-ID`: the number of the last event that a client has seen.
    pub last_event: Option<u64>,
}

/// Why a request is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// It is not HTTP/1.1.
    Malformed,
    /// Its head is longer than [`MAX_HEAD_BYTES`].
    TooLong,
    /// Neither GET nor HEAD.
    Method,
}

/// Reads the head of a request, once all of it is in `bytes`; `None` until then.
///
/// # Errors
/// When `bytes` cannot become a request any more.
pub fn read_head(bytes: &[u8]) -> Result<Option<Request>, RequestError> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end.filter(|end| *end <= MAX_HEAD_BYTES - 4) else {
        return if bytes.len() >= MAX_HEAD_BYTES { Err(RequestError::TooLong) } else { Ok(None) };
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| RequestError::Malformed)?;
    let mut lines = head.split("\r\n");
    let mut request = request_line(lines.next().unwrap_or_default())?;
    for line in lines {
        read_field(&mut request, line)?;
    }
    Ok(Some(request))
}

/// Method, target and version (RFC 9112 section 3).
fn request_line(line: &str) -> Result<Request, RequestError> {
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(RequestError::Malformed);
    };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_target = target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_method || !is_target {
        return Err(RequestError::Malformed);
    }
    if !matches!(method, "GET" | "HEAD") {
        return Err(RequestError::Method);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_head = method == "HEAD";
    Ok(Request { is_head, path: path.to_owned(), query: read_query(query), ..Request::default() })
}

/// Reads a field (RFC 9112 section 5). One that may come once and comes twice is refused: two readers
/// could take different ones.
fn read_field(request: &mut Request, line: &str) -> Result<(), RequestError> {
    let (name, value) = line.split_once(':').ok_or(RequestError::Malformed)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(RequestError::Malformed);
    }
    let value = value.trim_matches([' ', '\t']);
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(RequestError::Malformed);
    }
    let slot = match name.to_ascii_lowercase().as_str() {
        "host" => &mut request.host,
        "origin" => &mut request.origin,
        "authorization" => {
            let Some(token) = bearer(value) else { return Ok(()) };
            return set_once(&mut request.token, token.to_owned());
        }
        "last-event-id" => {
            request.last_event = value.parse().ok();
            return Ok(());
        }
        _ => return Ok(()),
    };
    set_once(slot, value.to_owned())
}

fn set_once(slot: &mut Option<String>, value: String) -> Result<(), RequestError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(RequestError::Malformed),
    }
}

/// The token of `Bearer TOKEN` (RFC 6750); the scheme's case does not matter.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

/// Names and values, `+` and `%XX` decoded; what is not UTF-8 is replaced.
fn read_query(query: &str) -> Vec<(String, String)> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), decoded(value))
    };
    parts.map(pair).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let hex = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                // Two digits of base 16 are a byte.
                bytes.push((16 * high + low) as u8);
                rest = &after[2..];
            }
            (b'+', ..) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Request {
    /// The first value of this name in the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same as a number.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.value(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Request, RequestError> {
        read_head(text.as_bytes()).map(|request| request.expect("it is whole"))
    }

    #[test]
    fn the_fields_that_count_are_read() {
        let request = read(
            "GET /api/events?flow=7&search=10.0.0.1%3A80+a&x HTTP/1.1\r\nHost: a:1\r\n\
             ORIGIN:http://a:1\t\r\nauthorization: bearer  abc \r\nLast-Event-ID: 12\r\nX: \r\n\r\n",
        );
        let request = request.unwrap();
        assert_eq!(request.path, "/api/events");
        assert_eq!(request.number("flow"), Some(7));
        assert_eq!(request.value("search"), Some("10.0.0.1:80 a"));
        assert_eq!((request.value("x"), request.value("y")), (Some(""), None));
        assert_eq!(request.host.as_deref(), Some("a:1"));
        assert_eq!(request.origin.as_deref(), Some("http://a:1"));
        assert_eq!(request.token.as_deref(), Some("abc"));
        assert_eq!(request.last_event, Some(12));
        assert!(read("HEAD / HTTP/1.0\r\n\r\n").unwrap().is_head);
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        for wrong in [
            "GET /metrics\r\n\r\n",
            "\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / X\r\n\r\n",
            "GET / HTTP/1.1 \r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\n\r\n",
            "G\u{e9}T / HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\n folded: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nb\r\n\r\n",
        ] {
            assert_eq!(read(wrong), Err(RequestError::Malformed), "{wrong:?}");
        }
        assert_eq!(read_head(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(RequestError::Malformed));
        assert_eq!(read("POST / HTTP/1.1\r\n\r\n"), Err(RequestError::Method));
        assert_eq!(read_head(b"GET / HTTP/1.1\r\n"), Ok(None), "not whole");
    }

    #[test]
    fn a_head_has_8_kib_at_most() {
        assert_eq!(read_head(&[b'a'; MAX_HEAD_BYTES - 1]), Ok(None));
        assert_eq!(read_head(&[b'a'; MAX_HEAD_BYTES]), Err(RequestError::TooLong));
        let padded = |length: usize| format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(length));
        let most = MAX_HEAD_BYTES - padded(0).len();
        assert!(read(&padded(most)).is_ok());
        assert_eq!(read(&padded(most + 1)), Err(RequestError::TooLong));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_what_comes_later_does_not_change_what_was_read(bytes: Vec<u8>) {
            let head = [&b"GET /?"[..], &bytes, b" HTTP/1.1\r\n\r\n"].concat();
            for input in [&bytes, &head] {
                if let Ok(Some(request)) = read_head(input) {
                    let longer = [&input[..], b"more"].concat();
                    prop_assert_eq!(read_head(&longer), Ok(Some(request)));
                }
            }
        }
    }
}
