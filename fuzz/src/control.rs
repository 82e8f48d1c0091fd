//! What `cellpace run` and the preloaded library say to each other.

use std::net::{Ipv6Addr, SocketAddr};

use cellpace_control::message::{Answer, Ask, ControlSession, Token, hello, read_hello};
use cellpace_control::{FlowName, Owner, Rules, variables};

const TOKEN: Token = [7; 32];
const SESSION: ControlSession = ControlSession { client: [1; 16], launcher: [2; 16] };

/// Requests, answers, names, tokens and rules: refused, or written as they were read.
pub fn control(bytes: &[u8]) {
    if let Some(ask) = Ask::decode(bytes) {
        assert_eq!(ask.encode(), bytes);
    }
    if let Some(nonce) = read_hello(bytes) {
        assert_eq!(hello(&nonce), bytes);
    }
    assert_eq!(SESSION.asked(&TOKEN, bytes), None, "a request that nobody signed");
    assert_eq!(
        ControlSession::greeted(SESSION.client, bytes, &TOKEN),
        None,
        "an unsigned greeting"
    );
    if let Some(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
    if let Some(token) = variables::parse_token(bytes) {
        assert!(variables::token_text(&token).as_bytes().eq_ignore_ascii_case(bytes));
    }
    if let Some((name, workers)) = variables::parse_control(bytes)
        && workers > 1
    {
        assert!(bytes.starts_with(name) && (2..=variables::MAX_WORKERS).contains(&workers));
    }
    assert_eq!(FlowName::decode(bytes, &TOKEN), None, "a name that nobody signed");
    name(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(rules) = text.parse::<Rules>() {
        assert_eq!(rules.to_string().parse(), Ok(rules));
    }
}

/// A name made of any bytes, and the same with a byte changed.
fn name(bytes: &[u8]) {
    let Some((flow, rest)) = bytes.split_first_chunk() else { return };
    let Some((ip, rest)) = rest.split_first_chunk::<16>() else { return };
    let address = |port| SocketAddr::new(Ipv6Addr::from(*ip).into(), port);
    let name = FlowName {
        flow: u64::from_be_bytes(*flow),
        owner: Owner::Launcher,
        not_awaited: flow[0] & 1 != 0,
        local: address(80),
        peer: address(1024),
    };
    let mut encoded = name.encode(&TOKEN);
    assert_eq!(FlowName::decode(&encoded, &TOKEN), Some(name));
    if let [place, change, ..] = *rest {
        let place = usize::from(place) % encoded.len();
        encoded[place] ^= change;
        assert_eq!(FlowName::decode(&encoded, &TOKEN).is_some(), change == 0);
    }
}
