//! What the parameters of a controller can do: build its two halves.

use std::fmt;

use cellpace_base::Param;
use cellpace_mdi::Flat;

use crate::{Controller, Receiver, Setup};

/// The largest file that a controller's parameter may name, in bytes.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// Reads a file that a parameter names: its bytes, at most [`MAX_FILE_BYTES`], or why not in
/// words that name the file.
pub type ReadFile<'a> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'a;

/// A controller's parameters, declared by [`params!`](crate::params), which build both halves of a flow. Flows of
/// one controller string share them.
pub trait ControllerParams: fmt::Debug + Send + Sync {
    /// Builds the sender's half.
    fn build(&self, setup: Setup) -> Box<dyn Controller>;

    /// Returns what builds the receiver's half, for algorithms that have one.
    fn receiver(&self) -> Option<&dyn ReceiverParams> {
        None
    }

    /// Refuses values that are fine alone and wrong together.
    ///
    /// # Errors
    /// In words that name the parameters.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Loads the files that parameters name. Only then the sender's half can be built.
    ///
    /// # Errors
    /// In words that name the file.
    fn load(&mut self, read: &mut ReadFile<'_>) -> Result<(), String> {
        let _ = read;
        Ok(())
    }

    /// Returns the parameters that a file declares, once it is loaded, where not the controller's table does.
    fn declared(&self) -> &'static [Param] {
        &[]
    }

    /// Whether its controllers are code from outside, which may [fail](Controller::failure): others are not asked at
    /// each packet.
    fn may_fail(&self) -> bool {
        false
    }

    /// Returns the walk over a Markov table that this is, for runtimes with a walk of their own.
    /// `None` for every other controller, and for several tables among which the walk chooses.
    fn markov_walk(&self) -> Option<MarkovWalk> {
        None
    }

    /// Returns what a program in the kernel that takes the same steps needs to know of the parameters.
    /// `None` for controllers that have none.
    fn kernel_settings(&self) -> Option<KernelSettings> {
        None
    }
}

/// The parameters of a controller that also runs in the kernel by itself, in the units of its law there: packets
/// in the place of bytes, and whole numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSettings {
    /// The controller's name in the registry.
    pub controller: &'static str,
    /// The words of the program's `struct NAME_settings`, in its order.
    pub words: Vec<u64>,
}

/// Builds the receiver's half of an algorithm.
pub trait ReceiverParams {
    /// Builds it.
    fn build(&self, setup: Setup) -> Box<dyn Receiver>;

    /// Returns the cost of building it for a peer.
    ///
    /// # Errors
    /// When the half is larger than a peer may ask for, in words for that peer.
    fn peer_cost(&self) -> Result<PeerCost, String>;
}

/// What it costs to build a receiver half that a peer has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerCost {
    /// Nothing that a peer could order again and again: its tables exist, or are computed once in
    /// the life of a process.
    Shared,
    /// New tables: some ten milliseconds and a few megabytes. Whoever listens to strangers should
    /// limit how often it computes them.
    Tables,
}

/// A walk over one Markov table, for runtimes that have a walk of their own.
#[derive(Debug, Clone)]
pub struct MarkovWalk {
    /// The table and the rules of the walk.
    pub flat: Flat,
    /// Whether there is a slow start in front of the walk.
    pub slow_start: bool,
    /// The controller from which the table was learnt, as on the command line; empty where the
    /// model does not say.
    pub teacher: String,
}
