//! Explicit congestion notification: the two bits of an IP header by which a queue marks a packet
//! in place of dropping it.

use std::fmt;

/// The ECN codepoint of a packet (RFC 3168 section 5): the two low bits of IPv4's TOS field or
/// IPv6's traffic class, with the values that they have there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not react to marks: queues drop the packet instead.
    #[default]
    NotEct = 0b00,
    /// ECT(1): the transport reacts to each mark in proportion (L4S, RFC 9331 section 2).
    Ect1 = 0b01,
    /// ECT(0): the transport reacts to a mark as it does to a loss (RFC 3168).
    Ect0 = 0b10,
    /// Congestion experienced: a queue on the way has marked the packet.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint in a TOS field or traffic class, whose other six bits do not matter.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a queue may mark the packet, or has: its transport understands ECN.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Whether a queue on the way has marked the packet.
    pub const fn is_marked(self) -> bool {
        matches!(self, Self::Ce)
    }

    /// Returns the word for logs and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotEct => "not-ect",
            Self::Ect1 => "ect1",
            Self::Ect0 => "ect0",
            Self::Ce => "ce",
        }
    }
}

impl fmt::Display for Ecn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3168_codepoints_are_the_two_low_bits() {
        for (bits, ecn, capable) in [
            (0b00, Ecn::NotEct, false),
            (0b01, Ecn::Ect1, true),
            (0b10, Ecn::Ect0, true),
            (0b11, Ecn::Ce, true),
        ] {
            assert_eq!((Ecn::from_bits(bits), ecn.bits()), (ecn, bits));
            assert_eq!(Ecn::from_bits(0b1011_1000 | bits), ecn, "whatever the DSCP");
            assert_eq!((ecn.is_capable(), ecn.is_marked()), (capable, bits == 0b11));
        }
    }
}
