//! No control: for connections above another one that bounds what is in flight.

use cellpace_cc::{Controller, Permit};

/// Lets all leave at once. What a connection above TCP goes on with whose controller
/// [failed](Controller::failure): it is plain TCP then.
#[derive(Debug, Clone, Copy)]
pub struct Unbounded;

impl Controller for Unbounded {
    fn permit(&self) -> Permit {
        Permit::Window(u64::MAX)
    }
}
