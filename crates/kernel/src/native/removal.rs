//! Takes a congestion control that needs no process out of the kernel.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::KernelError;
use crate::host::bpf::Map;
use crate::host::ids;
use crate::host::pins::{holds_congestion_control, pins};
use crate::host::registered::{Registered, find, is_listed, unseen};

/// Removes what is registered under a name if it is one of ours, and its pin, which a registration without a
/// pin has not. Connections that run keep to it until they end. Returns whether there was one.
///
/// # Errors
/// When this process may not, or when another one holds it and the kernel is too old.
pub(crate) fn remove_ours(
    name: &str,
    is_ours: fn(&Registered) -> bool,
) -> Result<bool, KernelError> {
    let pin = pins(name);
    let was_pinned = match holds_congestion_control(&pin) {
        Ok(Some(true)) => remove_pin(&pin)?,
        Ok(Some(false)) if !pin.is_dir() => return Err(KernelError::ForeignPin(pin)),
        Ok(_) => false,
        Err(error) => return Err(unseen(name, error)),
    };
    if !is_listed(name) {
        return Ok(was_pinned);
    }
    let found = match find(name) {
        // The link is about to go.
        Ok(None) | Err(_) if was_pinned => None,
        Ok(Some(found)) if is_ours(&found) => Some(found),
        Ok(_) => return Ok(was_pinned),
        Err(error) => return Err(unseen(name, error)),
    };
    // Before Linux 6.11 links cannot be detached. What counts is whether it is gone in the end.
    let unregistered = found.map_or(Ok(()), |found| found.unregister());
    match unregistered {
        _ if is_gone_soon(name) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(unseen(name, error)),
        _ => Err(KernelError::Held(name.to_owned())),
    }
}

fn remove_pin(pin: &Path) -> Result<bool, KernelError> {
    let unpinning = "removing the pin";
    // A link, unless the kernel is so old that it has none.
    if let Ok(link) = Map::open(pin) {
        // Before Linux 6.11 it cannot be detached, and goes when its last holder is gone.
        let _ = ids::detach(link.as_fd());
    }
    match fs::remove_file(pin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => result.map(|()| true).map_err(KernelError::system(unpinning)),
    }
}

/// How often to look, 10 ms apart, whether the kernel has let go, which it does a little later.
const LETTING_GO: u32 = 300;

fn is_gone_soon(name: &str) -> bool {
    for _ in 0..LETTING_GO {
        if !is_listed(name) {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}
