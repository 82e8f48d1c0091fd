//! What is known of a kernel driver that is installed, or was removed.

/// A kernel driver that is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Name of the congestion control.
    pub name: String,
    /// Version of the cellpace that installed it.
    pub version: String,
    /// Layout of its maps. What follows is known of our own layout only.
    pub layout: u32,
    /// Bytes of each slot's ring buffer.
    pub ring_bytes: u32,
    /// Sockets that use it now.
    pub sockets: u64,
    /// How often a socket lost its controller and went by RFC 5681.
    pub fallbacks: u64,
    /// Processes that control sockets now.
    pub slots: Vec<u32>,
    /// Records that found no room, of all processes that have a slot or had it last.
    pub dropped: u64,
    /// Devices whose receivers are asked for prompt acknowledgments, by name.
    pub prompt_acks: Vec<PromptAcks>,
}

/// A device by which packets of sockets under control leave with PSH.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PromptAcks {
    /// Its name in the network namespace in which it was installed, at that time.
    pub device: String,
    /// Whether it is still there. `None`: only root may ask.
    pub attached: Option<bool>,
}

/// What a removal left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Sockets that continue by RFC 5681 until they close. `None`: of another version, unknown.
    pub sockets: Option<u64>,
}
