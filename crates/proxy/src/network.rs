//! Ranges of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of addresses: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    prefix: u8,
}

impl AddressRange {
    /// Bits that all its addresses have in common, 0 to 32 or 128.
    pub(crate) fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether an address belongs to it. IPv4 in the form of IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                (a.to_bits() ^ b.to_bits()) & mask == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                (a.to_bits() ^ b.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "write a network, as in 10.0.0.0/8 or 2001:db8::/32, or an address".to_owned();
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match prefix {
            // `+8` is a number to Rust.
            Some(prefix) if !prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(wrong());
            }
            Some(prefix) => prefix.parse().map_err(|_| wrong())?,
            None => bits,
        };
        if prefix > bits {
            return Err(wrong());
        }
        // As addresses are compared.
        match (address, prefix.checked_sub(96)) {
            (IpAddr::V6(v6), Some(rest)) if v6.to_ipv4_mapped().is_some() => {
                Ok(Self { address: address.to_canonical(), prefix: rest })
            }
            _ => Ok(Self { address, prefix }),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_has_its_prefix() {
        let holds = |network: &str, address: &str| {
            network.parse::<AddressRange>().unwrap().contains(address.parse().unwrap())
        };
        assert!(holds("10.0.0.0/8", "10.255.1.2"));
        assert!(!holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("0.0.0.0/0", "203.0.113.9"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(!holds("127.0.0.1", "127.0.0.2"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!holds("2001:db8::/33", "2001:db8:ffff::1"));
        assert!(holds("::/0", "::1"));
        assert!(holds("::ffff:10.0.0.0/104", "10.1.2.3"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10/8", "::/129", "host/8"] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }
}
