//! The drivers that stand between the application and TCP and relay its data: the gate, and
//! client/server.

mod ack_stamps;
mod alcc_half;
mod byte_queue;
mod congestion_control;
mod engine;
mod flow;
mod gate_half;
mod half;
mod local_socket;

pub use congestion_control::{BelowOnSystem, CongestionControlName, TcpCongestionControl};
pub use engine::{RelayEngine, trim_memory};
