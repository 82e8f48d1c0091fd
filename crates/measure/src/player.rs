//! What a viewer saw of a video that was fetched in chunks.

use serde::{Deserialize, Serialize};

/// The figures of a video that a player fetched in chunks and chose the rate of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlayerFigures {
    /// Chunks that are complete.
    pub chunks: u64,
    /// Mean rate of the video in them, in Mbit/s.
    pub bitrate_mbps: f64,
    /// From the first request to the first picture, in seconds; none without a complete chunk.
    pub startup_s: Option<f64>,
    /// Times after that at which the buffer ran empty.
    pub stalls: u64,
    /// Their sum in seconds.
    pub stalled_s: f64,
    /// Changes of the rate from one chunk to the next.
    pub switches: u64,
}
