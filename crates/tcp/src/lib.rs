//! ALCC: the controllers of [`cellpace_cc`] above unmodified TCP sockets, by one of four drivers.
//!
//! - The gate: a flow has two descriptors, the real TCP socket and one end of a local stream socket
//!   pair whose other end belongs to the application. One thread, the [`RelayEngine`], serves all
//!   flows: it releases what the application writes into TCP as the flow's controller allows, and
//!   passes on what TCP receives. The application holds a socket of the kernel, so everything that
//!   works on sockets (poll, epoll, sendfile, fork, passing it to another process) works as ever.
//! - Client/server: the same, and the two ends of a connection number and acknowledge packets inside
//!   the TCP stream, in place of TCP's own acks: [`cellpace_alcc`].
//! - The kernel driver ([`KernelDriver`]): the data stay in the kernel. The window is set there, and
//!   the kernel reports every ack.
//! - A controller that the kernel has by itself ([`NativeDriver`]): it is TCP's congestion control.
//!
//! The window that counts is the smaller of the controller's and TCP's own.

mod books;
mod control;
mod error;
mod flow;
mod kernel;
mod linger;
mod options;
mod placement;
mod recorder;
mod relay;
mod socket;
mod stream;
mod thread;
mod timers;
mod trial;

pub use control::{ControlOptions, FlowControl, NewFlow};
pub use error::{PlacementReason, TcpError};
pub use flow::{FlowHandle, FlowOutcome, FlowStats, FlowWatch, InspectedController};
pub use kernel::{
    KernelConnection, KernelDriver, KernelHolder, NativeDriver, RemoteSocket, SocketOwner,
};
pub use options::{
    AlccLimits, ClientServerOptions, DriverKind, FlowDriver, FlowOptions, FlowShare, GateOptions,
    RelayOptions,
};
pub use placement::{DriverChoice, Placement, ProgramSocket};
pub use recorder::{RecordedSocket, Recorder};
pub use relay::{
    BelowOnSystem, CongestionControlName, RelayEngine, TcpCongestionControl, trim_memory,
};
pub use socket::{TcpFigures, unacknowledged};
pub use stream::AlccStream;
pub use trial::{
    ArmControl, TcpSamples, Treatment, Trial, TrialPart, Trials, goodput_mbps, rounded, since_1970,
};
