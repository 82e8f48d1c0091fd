//! How often runs are repeated.

/// How often runs are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// One seed, one start.
    Quick,
    /// As the claims say.
    #[default]
    AsWritten,
    /// Five seeds, ten starts.
    Full,
}

impl Depth {
    /// As documents have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::AsWritten => "as written",
            Self::Full => "full",
        }
    }
}
