//! The modelled path in real time: any program behind an emulated cellular link.
//!
//! Two network namespaces, the inside with the program and the far side, each have a TUN device.
//! One thread reads packets from one, lets the model of [`cellpace_path`] decide when and whether
//! they leave, and writes them to the other: the very objects that the simulator drives in virtual
//! time. The model's times are absolute, so a thread that wakes up late does not make the next
//! packet late, too; how late it was is reported at the end of every run.
//!
//! The kernel cleans up: devices live as long as the files that made them, namespaces as long as
//! somebody is in them, and a guardian process ends whoever is left when this one dies.

mod address;
mod beyond;
mod control;
mod devices;
mod error;
mod expose;
mod forward;
mod guard;
mod link;
mod names;
mod namespace;
mod nat;
mod observe;
mod pcap;
mod program;
mod realtime;
mod rests;
mod series;
mod slab;
mod tally;
mod tun;
mod wire;

pub use control::{ReadChange, change_running};
pub use error::EmuError;
pub use expose::Expose;
pub use link::{EmulatedLink, LinkOutcome, LinkSpec, OwnLosses};
pub use namespace::{HOST, HOST6, enter_empty_network};
pub use observe::{LinkChange, LinkDirection, LinkObserver, LinkSide, SeenPacket};
pub use pcap::{PcapngLog, is_pcapng};
pub use program::FarProgram;
pub use rests::{LINK, clean};
pub use tally::{LinkTally, Totals};
