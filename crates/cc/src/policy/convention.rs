//! Whose observations, actions and rewards.

use std::str::FromStr;

use cellpace_base::{ParamValue, words};

words! {
    /// Whose observations, actions or rewards.
    pub enum Convention {
        /// Ours.
        Default = "default",
        /// Aurora: Jay, Rotman, Godfrey, Schapira and Tamar, ICML 2019.
        Aurora = "aurora",
        /// Orca: Abbasloo, Yen and Chao, SIGCOMM 2020.
        Orca = "orca",
        /// mvfst-rl: Sivakumar et al., 2019.
        Mvfst = "mvfst",
    }
}

impl Convention {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Default, Self::Aurora, Self::Orca, Self::Mvfst];

    /// Its name in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Aurora => "aurora",
            Self::Orca => "orca",
            Self::Mvfst => "mvfst",
        }
    }
}

/// Reads its name.
impl FromStr for Convention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = Self::read(text.trim(), &()).ok().flatten();
        read.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}`; there are {names}")
        })
    }
}
