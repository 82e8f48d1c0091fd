//! Who may look: whoever has the token, from a page of ours.

use std::fmt;
use std::net::IpAddr;

use data_encoding::HEXLOWER;

use crate::request::Request;

/// A random secret of 128 bits, which the printed link has in its fragment: browsers send that to
/// nobody, and the page sends it in a field of its requests. So it is in no address, log or referrer.
#[derive(Clone)]
pub struct LiveToken(String);

impl LiveToken {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(HEXLOWER.encode(&bytes)))
    }

    /// Its text: 32 digits of base 16.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request has it.
    pub(crate) fn is_in(&self, request: &Request) -> bool {
        let given = request.token.as_deref().unwrap_or_default();
        // Hashes of this type compare in constant time.
        blake3::hash(given.as_bytes()) == blake3::hash(self.0.as_bytes())
    }
}

/// Shows nothing of it.
impl fmt::Debug for LiveToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveToken")
    }
}

/// Whether a request comes from a page of ours or from no page: another page in the same browser has
/// another origin, and a name of its own that it lets point here (DNS rebinding) is no address.
/// Any port is fine: what is passed on by `ssh -L` comes with another one.
pub(crate) fn is_from_here(request: &Request) -> bool {
    let Some(host) = request.host.as_deref() else { return false };
    let is_ours = is_address(host);
    let is_foreign = request.origin.as_deref().is_some_and(|origin| {
        let of = origin.split_once("://").map_or("", |(_, rest)| rest);
        of != host
    });
    is_ours && !is_foreign
}

/// An address or `localhost`, with or without a port: what no name server can answer.
fn is_address(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_name = match bare {
        Some(six) => six.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()),
        None => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
    };
    is_port && is_name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, origin: Option<&str>) -> bool {
        let origin = origin.map(str::to_owned);
        is_from_here(&Request { host: Some(host.to_owned()), origin, ..Request::default() })
    }

    #[test]
    fn only_addresses_and_localhost_are_hosts() {
        for ours in ["127.0.0.1:80", "localhost:9", "localhost", "[::1]:65535", "[::1]", "10.0.0.1"]
        {
            assert!(asked(ours, None), "{ours}");
        }
        for foreign in [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.",
            "::1:80",
            "[127.0.0.1]",
            "127.0.0.1:x",
            "127.0.0.1:",
            "localhost:70000",
            "user@localhost",
        ] {
            assert!(!asked(foreign, None), "{foreign}");
        }
        assert!(!is_from_here(&Request::default()), "no host at all");
    }

    #[test]
    fn an_origin_is_that_of_the_host() {
        assert!(asked("localhost:9", Some("http://localhost:9")));
        for foreign in ["http://evil.example", "http://localhost:10", "null", "", "localhost:9"] {
            assert!(!asked("localhost:9", Some(foreign)), "{foreign}");
        }
    }

    #[test]
    fn a_token_is_the_whole_of_it() {
        let token = LiveToken::new().unwrap();
        assert_eq!(token.text().len(), 32);
        assert_ne!(token.text(), LiveToken::new().unwrap().text());
        let with = |text: &str| Request { token: Some(text.to_owned()), ..Request::default() };
        assert!(token.is_in(&with(token.text())));
        assert!(!token.is_in(&with(&token.text()[1..])) && !token.is_in(&with("")));
        assert!(!token.is_in(&Request::default()));
        assert_eq!(format!("{token:?}"), "LiveToken");
    }
}
