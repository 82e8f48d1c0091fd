//! The client/server variant of ALCC: packets with numbers and acks inside the TCP stream.
//!
//! It is for algorithms whose receiver computes something (Sprout), for paths on which a middlebox
//! ends the TCP connection early, so that TCP's own acks describe another path, and for systems that
//! report nothing about TCP's acks to programs. `docs/alcc-wire.md` describes the bytes.
//!
//! [`AlccConnection`] does no I/O: it stands between the application's bytes and those of a TCP
//! connection, and whoever owns the socket moves both:
//!
//! ```
//! use cellpace_alcc::{AlccConfig, AlccConnection, AlccRole};
//! use cellpace_base::Time;
//!
//! let config = |seed| AlccConfig::new("fixed:cwnd=20pkts".parse().unwrap(), seed);
//! let now = Time::from_millis(1);
//! let mut client = AlccConnection::new(now, AlccRole::Connect, &config(1))?;
//! let mut server = AlccConnection::new(now, AlccRole::Listen { wait: None }, &config(2))?;
//! client.write(b"GET");
//! for _ in 0..3 {
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         let sides = [&mut client, &mut server];
//!         let mut bytes = Vec::new();
//!         sides[from].poll_output(now, &mut bytes, 64_000);
//!         sides[to].handle_input(now, &bytes)?;
//!     }
//! }
//! assert_eq!(server.readable().0, b"GET");
//! # Ok::<(), cellpace_alcc::AlccError>(())
//! ```

mod connection;
mod error;
pub mod frame;
pub mod hello;
mod queue;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub use cellpace_recovery::AckPolicy;
pub use connection::{AlccConfig, AlccConnection, AlccRole, AlccStats};
pub use error::AlccError;
