//! The native transport: data over UDP under any controller, for files and for measuring.
//!
//! [`Endpoint`] holds all flows of a process and knows neither sockets nor clocks: it is given
//! datagrams and the time, and asked for datagrams, deadlines and events. [`Driver`] is the thin
//! layer that does this with sockets. What lies between a controller and the wire (packets in
//! flight, loss, timeouts, pacing) is that of `cellpace-recovery`, as in the simulator.
//!
//! With a key that both sides share ([`Protection`]) all is encrypted and authenticated. In the plain
//! form whoever is on the path can read and change it, and nobody off the path can begin a flow in
//! another's name, or feed, steer or end one.
//! `docs/udp-wire.md` describes the datagrams.

#![forbid(unsafe_code)]

mod assembly;
mod config;
mod connection;
mod cookie;
mod driver;
mod endpoint;
mod hash;
mod incoming;
mod local_path;
mod numbers;
mod outgoing;
mod parts;
mod pending;
mod protection;
mod ranges;
mod video;
pub mod wire;

pub use cellpace_recovery::{AckPolicy, EcnFailure, EcnState, FrameRecord, VideoSpec};
pub use config::{EndpointConfig, FlowRequest, Listen, MTU_RANGE, Offer};
pub use connection::{FlowError, FlowEvent, Patience, UdpFlow};
pub use cookie::Cookies;
pub use driver::{Driver, Engine, Shortage, SocketTrouble};
pub use endpoint::{Endpoint, Strays};
pub use incoming::IncomingStats;
pub use local_path::{FlowId, LocalPath, OutgoingDatagram};
pub use outgoing::OutgoingStats;
pub use protection::{DatagramGuard, Protection, SenderSide};
pub use wire::CloseCode;
