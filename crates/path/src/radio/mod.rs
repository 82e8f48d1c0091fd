//! A radio layer: from a phone that drives past cells to the delivery opportunities of its link.
//!
//! A [`RadioSpec`] is a set of parameters, [`Drive::generate`] a drive through it: a trace, the
//! handovers that belong to it, and a series of what the radio was like, every 10 ms. A drive
//! depends on its seed and nothing else.
//!
//! ```
//! use cellpace_base::Span;
//! use cellpace_path::radio::{Drive, RadioSpec};
//!
//! let spec = RadioSpec::parse("highway-700,users=0")?;
//! let drive = Drive::generate(&spec, 1, Span::from_secs(60));
//! assert_eq!(drive.samples().len(), 6000);
//! assert!(drive.trace().mean_rate().as_bps() > 1_000_000);
//! # Ok::<(), cellpace_path::PathError>(())
//! ```
//!
//! # The model
//!
//! Steps of 10 ms move the phone along a straight road, and with it path loss and shadowing of the
//! nearest cells; steps of 1 ms are fading, blocks and their repetition.
//!
//! 1. **Signal** ([`propagation`]): `PL = a + b log10(d/km)`; log-normal shadowing as an AR(1)
//!    process over distance, a share of it common to all cells (Gudmundson, Electronics Letters
//!    27(23), 1991); the mean of several squared Rayleigh branches, each an AR(1) process with the
//!    correlation `J0(2 pi f_d t)` of Clarke's and Jakes' model. Interference is the load of the
//!    other cells times their mean power.
//! 2. **Rate** ([`rate`]): the spectral efficiency `log2(1 + SINR/G)` with the gap of uncoded QAM,
//!    `G = -ln(5 BER)/1.5` (Piro et al., IEEE Transactions on Vehicular Technology 60(2), 2011);
//!    the CQI is the highest of TS 36.213 whose efficiency fits. A block takes the CQI that was
//!    reported some milliseconds ago, less a margin.
//! 3. **Repetition** ([`harq`]): a block whose efficiency was too high is sent again 8 ms later, in
//!    the place of a new one, and the SINRs add up; after four repetitions RLC delivers it. Blocks
//!    are delivered in order, so a late one holds up those behind it.
//! 4. **Other users** come and go (M/M/infinity), and share the cell evenly.
//! 5. **Mobility** ([`mobility`]): filtered RSRP, event A3 with hysteresis and time to trigger,
//!    preparation, interruption; radio link failure by T310.

mod drive;
pub mod harq;
pub mod mobility;
mod params;
pub mod propagation;
pub mod rate;
mod sample;

pub use drive::Drive;
pub(crate) use params::{MAX_FILE_BYTES, is_named, split};
pub use params::{NAMES, RadioParams, RadioSpec, SUMMARIES};
pub use sample::{DriveSummary, RadioEvent, RadioSample, STEP};
