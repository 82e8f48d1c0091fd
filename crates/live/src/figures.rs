//! Figures of one connection.

use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::Span;
use cellpace_cc::Profile;
use serde_json::Value;

/// Figures of a connection as of now. What a command does not know is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ConnectionFigures {
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Bytes that arrived: acknowledged by the peer, or handed over by a link.
    pub delivered_bytes: u64,
    /// Bytes that came from the peer.
    pub received_bytes: u64,
    /// Segments that were sent again, or packets that were dropped.
    pub lost: u64,
    /// Smoothed RTT.
    pub rtt: Option<Span>,
    /// Smallest RTT.
    pub min_rtt: Option<Span>,
    /// Estimate of the time that packets wait in queues; of TCP, the smoothed RTT above the smallest.
    pub queue_delay: Option<Span>,
    /// The controller's window in bytes.
    pub cwnd: Option<u64>,
    /// TCP's own window in bytes.
    pub tcp_cwnd: Option<u64>,
    /// Bytes in flight.
    pub in_flight: Option<u64>,
    /// Bytes that wait for the controller.
    pub queued: Option<u64>,
    /// The controller's phase.
    pub phase: Option<&'static str>,
}

/// What somebody sees who looks into one connection.
#[derive(Debug, Clone, Default)]
pub struct ConnectionInside {
    /// Internal values of the controller.
    pub values: Vec<(&'static str, f64)>,
    /// What it decided since the last look: seconds ago, name, and what belongs to it.
    pub events: Vec<(f64, &'static str, Value)>,
    /// The delay profile that it has learnt.
    pub profile: Option<Profile>,
}

/// A connection that is shown. Reading its figures is cheap: it is done several times a second while
/// somebody looks, for each connection.
pub trait LiveConnection: Send + Sync {
    /// Returns the figures of now.
    fn figures(&self) -> ConnectionFigures;

    /// Looks into the connection's controller for as long as what is returned lives. `None` where
    /// there is nothing to see.
    fn watch(&self) -> Option<Box<dyn WatchedConnection>> {
        None
    }
}

/// A connection that somebody looks into.
pub trait WatchedConnection: Send {
    /// Returns what there is to see now.
    fn look(&mut self) -> ConnectionInside;
}

/// Figures that somebody else keeps up to date.
#[derive(Debug, Clone, Default)]
pub struct SharedFigures(Arc<Mutex<ConnectionFigures>>);

impl SharedFigures {
    /// Changes the figures.
    pub fn update(&self, change: impl FnOnce(&mut ConnectionFigures)) {
        // A panic elsewhere leaves figures, at worst old ones.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl LiveConnection for SharedFigures {
    fn figures(&self) -> ConnectionFigures {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
