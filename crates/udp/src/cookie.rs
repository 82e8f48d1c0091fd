//! Cookies: until an address has shown that it receives, nothing is stored for it and little is
//! sent to it.

use std::net::{IpAddr, SocketAddr};

use cellpace_base::{Span, Time};

use crate::wire::Cookie;

/// How long a cookie is valid.
const LIFETIME: Span = Span::from_secs(10);

/// Issues and checks cookies.
pub struct Cookies {
    secret: [u8; 32],
}

impl Cookies {
    /// Creates cookies under this secret, which must not be guessable.
    pub fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// Issues a cookie for the initiator with id `id` at `address`.
    pub fn issue(&self, now: Time, address: SocketAddr, id: u64) -> Cookie {
        let issued_ms = now.as_nanos() / 1_000_000;
        Cookie { issued_ms, seal: self.seal(issued_ms, address, id) }
    }

    /// Whether a cookie was issued for `address` and `id`, and not long ago.
    pub fn is_good(&self, now: Time, address: SocketAddr, id: u64, cookie: &Cookie) -> bool {
        let issued = Time::from_nanos(cookie.issued_ms.saturating_mul(1_000_000));
        let fresh = issued <= now && now - issued <= LIFETIME;
        // Hashes of this type compare in constant time.
        let expected = blake3::Hash::from_bytes(doubled(self.seal(cookie.issued_ms, address, id)));
        fresh && expected == blake3::Hash::from_bytes(doubled(cookie.seal))
    }

    /// Derives a key for random draws that only this side can predict in the flow with this id.
    pub(crate) fn flow_key(&self, id: u64) -> [u8; 32] {
        let mut material = [0; 40];
        material[..32].copy_from_slice(&self.secret);
        material[32..].copy_from_slice(&id.to_be_bytes());
        blake3::derive_key("cellpace UDP transport, packet numbers of a flow", &material)
    }

    /// Derives the nonce with which the datagrams of this side begin: different in each process, as
    /// the secret is.
    pub fn first_nonce(&self) -> u64 {
        let derived = blake3::derive_key("cellpace UDP transport, first nonce", &self.secret);
        let mut nonce = [0; 8];
        nonce.copy_from_slice(&derived[..8]);
        u64::from_be_bytes(nonce)
    }

    fn seal(&self, issued_ms: u64, address: SocketAddr, id: u64) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&issued_ms.to_be_bytes());
        hasher.update(&id.to_be_bytes());
        hasher.update(&address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => hasher.update(&ip.octets()),
            IpAddr::V6(ip) => hasher.update(&ip.octets()),
        };
        let mut seal = [0; 16];
        seal.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        seal
    }
}

fn doubled(half: [u8; 16]) -> [u8; 32] {
    let mut whole = [0; 32];
    whole[..16].copy_from_slice(&half);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_address_id_and_ten_seconds() {
        let cookies = Cookies::new([7; 32]);
        let (here, there) = (address("192.0.2.1:9"), address("192.0.2.1:10"));
        let (now, cookie) = (Time::from_secs(5), cookies.issue(Time::from_secs(5), here, 77));
        assert!(cookies.is_good(now, here, 77, &cookie));
        assert!(!cookies.is_good(now, there, 77, &cookie));
        assert!(!cookies.is_good(now, address("[2001:db8::1]:9"), 77, &cookie));
        assert!(!cookies.is_good(now, here, 78, &cookie));
        assert!(cookies.is_good(Time::from_secs(15), here, 77, &cookie));
        assert!(!cookies.is_good(Time::from_millis(15_001), here, 77, &cookie));
        assert!(!cookies.is_good(Time::from_secs(4), here, 77, &cookie), "from the future");
        let mut forged = cookie;
        forged.seal[3] ^= 1;
        assert!(!cookies.is_good(now, here, 77, &forged));
        let later = Cookie { issued_ms: cookie.issued_ms + 1, ..cookie };
        assert!(!cookies.is_good(now, here, 77, &later));
        assert!(!Cookies::new([8; 32]).is_good(now, here, 77, &cookie));
        assert!(!cookies.is_good(now, here, 77, &Cookie::default()));
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }
}
