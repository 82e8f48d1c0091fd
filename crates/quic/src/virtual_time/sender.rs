//! Which library sends, and under whose controller.

use std::fmt;
use std::str::FromStr;

/// A QUIC library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// noq 1.4.
    Noq,
    /// quinn 0.11.
    Quinn,
}

/// A controller that the libraries bring themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibraryController {
    /// CUBIC (RFC 9438), the default of both.
    Cubic,
    /// NewReno (RFC 9002).
    NewReno,
    /// BBR: the third version in noq, which draws what no seed of ours decides; the first in quinn.
    Bbr,
}

/// Who sends: a library, under a controller of ours or under its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// The library.
    pub stack: Stack,
    /// Its own controller in place of one of ours.
    pub own: Option<LibraryController>,
}

/// Why a text is no sender.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}`: write noq or quinn, or noq:cc=cubic, newreno or bbr for the library's own controller"
)]
pub struct SenderError(String);

impl FromStr for Sender {
    type Err = SenderError;

    /// Reads `noq`, `quinn`, `noq:cc=cubic`.
    fn from_str(text: &str) -> Result<Self, SenderError> {
        let wrong = || SenderError(text.to_owned());
        let (name, own) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest.strip_prefix("cc=").ok_or_else(wrong)?)),
            None => (text, None),
        };
        let stack = match name {
            "noq" => Stack::Noq,
            "quinn" => Stack::Quinn,
            _ => return Err(wrong()),
        };
        let own = own.map(|own| match own {
            "cubic" => Ok(LibraryController::Cubic),
            "newreno" => Ok(LibraryController::NewReno),
            "bbr" => Ok(LibraryController::Bbr),
            _ => Err(wrong()),
        });
        Ok(Self { stack, own: own.transpose()? })
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stack, own } = self;
        match own {
            Some(own) => write!(f, "{stack}:cc={own}"),
            None => stack.fmt(f),
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Noq => "noq",
            Self::Quinn => "quinn",
        })
    }
}

impl fmt::Display for LibraryController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_written_as_they_are_read() {
        for text in ["noq", "quinn", "noq:cc=cubic", "quinn:cc=bbr", "noq:cc=newreno"] {
            assert_eq!(text.parse::<Sender>().unwrap().to_string(), text);
        }
        for text in ["", "quic", "noq:", "noq:cubic", "noq:cc=verus", "quinn:cc="] {
            assert!(text.parse::<Sender>().unwrap_err().to_string().contains("write noq or quinn"));
        }
    }
}
