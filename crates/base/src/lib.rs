//! Quantities that all crates of cellpace share: points in time, spans, rates, sizes, the way
//! people write them (`40ms`, `12mbit`, `2MB`, `1%`), and the `NAME:key=value` grammar in which
//! controllers, queues and traces are named on the command line, seeded randomness, and [quotas of
//! listeners](quota).
//!
//! Nothing here reads a clock or the system's entropy: the owner of a clock passes a
//! [`Time`], and the owner of a seed a [`Random`].

#![forbid(unsafe_code)]

mod byte_reader;
mod date;
mod distribution;
mod ecn;
pub mod math;
mod name;
mod param;
mod param_set;
mod quantity;
pub mod quota;
mod random;
mod shell;
pub mod statistics;
mod time;

pub use byte_reader::ByteReader;
pub use date::utc_text;
pub use distribution::SpanDistribution;
pub use ecn::Ecn;
pub use name::{RegisterError, SplitName, check_own_names, nearest, split_name};
pub use param::{ByteCount, Param, ParamKind, ParamValue, Preset};
pub use param_set::{GivenValues, ParamError, ParamSet};
pub use quantity::{
    QuantityError, Rate, Window, format_bytes, parse_bytes, parse_fraction, parse_number,
    parse_span, parse_window,
};
pub use random::Random;
pub use shell::shell_quoted;
pub use time::{Span, Time};
