//! A TCP proxy with a congestion controller towards the radio side and plain TCP towards the
//! other: a forwarder, a SOCKS 5 server, or in the way of connections to others (TPROXY).
//!
//! It runs on one thread of tokio, beside the one of [`cellpace_tcp::RelayEngine`]. A connection that
//! is idle costs no buffer; one that is blocked holds one chunk in each direction.

#![forbid(unsafe_code)]

pub mod proxy_header;
pub mod rules;
pub mod socks5;

mod access;
mod clients;
mod config;
mod connection;
mod error;
mod metrics;
mod network;
mod notice;
mod reach;
mod relay;
mod server;
mod side;
mod trial;

pub use access::{Access, is_listener};
pub use config::{ControlledSide, ProxyConfig, ProxyLimits, ProxyMode};
pub use error::{ConnectionError, ProxyError};
pub use metrics::Metrics;
pub use network::AddressRange;
pub use notice::{ConnectionEnd, ControlledFlow, Notice, ServedConnection, StopUrgency};
pub use server::{Proxy, ProxyOutcome, Reconfigure};
