//! What is installed, and its removal. Neither needs libbpf.

use std::fs;
use std::io;
use std::path::Path;

use super::installed::{Installed, PromptAcks, Removed};
use super::layout::LAYOUT;
use super::shared_page::SharedPage;
use crate::KernelError;
use crate::host::bpf::TcxLink;
use crate::host::ids::KnownMap;
use crate::host::pins::{device_of, open, pins, remove_pins};
use crate::host::registered::{self, ARRAY, Registered, find, is_listed, unseen};
use crate::table::is_table;

/// What is installed under a name.
///
/// # Errors
/// [`KernelError::NotInstalled`], [`KernelError::PinsGone`], or why it cannot be looked at.
pub fn installed(name: &str) -> Result<Installed, KernelError> {
    let pins = pins(name);
    let shared = match open(&pins, "shared") {
        Err(KernelError::NotInstalled) => return Err(without_pins(name)),
        shared => SharedPage::map_any(&shared?)?,
    };
    let mut installed = shared.installed();
    // Removed where its pins were not to be seen, or half removed.
    if installed.layout == LAYOUT && shared.is_removed() {
        return Err(KernelError::NotInstalled);
    }
    installed.prompt_acks = prompt_acks(&pins);
    Ok(installed)
}

fn prompt_acks(pins: &Path) -> Vec<PromptAcks> {
    let entries = fs::read_dir(pins).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let device = device_of(&entry.file_name().to_string_lossy())?;
            let attached = TcxLink::open(&entry.path()).and_then(|link| link.is_attached()).ok();
            Some(PromptAcks { device, attached })
        })
        .collect();
    found.sort_unstable();
    found
}

/// Takes the congestion control out of the kernel and removes the pins. Sockets that use it keep
/// their connections and look after themselves, by RFC 5681. Also one whose pins are gone.
///
/// # Errors
/// [`KernelError::NotInstalled`] when nothing is there; needs the rights of the user that installed it,
/// and CAP_SYS_ADMIN when pins are gone.
pub fn remove(name: &str) -> Result<Removed, KernelError> {
    match remove_pinned(name) {
        Err(KernelError::NotInstalled) => remove_unpinned(name).map(|(_, removed)| removed),
        result => result,
    }
}

/// Only what is ours for certain. Pins that are left are removed as well.
pub(crate) fn remove_unpinned(name: &str) -> Result<(Installed, Removed), KernelError> {
    let removed = remove_unpinned_driver(name)?;
    match remove_pins(&pins(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => result.map_err(KernelError::system("removing the pins"))?,
    }
    Ok(removed)
}

fn remove_pinned(name: &str) -> Result<Removed, KernelError> {
    let pins = pins(name);
    let shared = SharedPage::map(&open(&pins, "shared")?);
    let congestion_control = open(&pins, "cc")?;
    if let Ok(shared) = &shared {
        shared.set_removed();
    }
    registered::unregister(&congestion_control)
        .map_err(KernelError::system("unregistering the congestion control"))?;
    remove_pins(&pins).map_err(KernelError::system("removing the pins"))?;
    Ok(Removed { sockets: shared.ok().map(|shared| shared.installed().sockets) })
}

/// The kernel driver of this name without its pins, for callers that did not find those.
fn driver(name: &str) -> Result<(Registered, SharedPage), KernelError> {
    if !is_listed(name) {
        return Err(KernelError::NotInstalled);
    }
    let found = match find(name) {
        Ok(Some(found)) => found,
        // Modules, and what the kernel has built in.
        Ok(None) => return Err(KernelError::Foreign(name.to_owned())),
        Err(error) => return Err(unseen(name, error)),
    };
    match shared_page(&found, name) {
        Some(shared) => Ok((found, shared)),
        None if is_table(&found) => Err(KernelError::NotInstalled),
        None => Err(KernelError::Foreign(name.to_owned())),
    }
}

/// The shared page, if `found` is the kernel driver of that name.
fn shared_page(found: &Registered, name: &str) -> Option<SharedPage> {
    let is_it =
        |map: &&KnownMap| map.kind == ARRAY && map.entries == 1 && map.name.ends_with(".shared");
    let shared = SharedPage::map_any(&found.maps.iter().find(is_it)?.map).ok()?;
    (shared.installed().name == name).then_some(shared)
}

/// What it means that there are no pins.
fn without_pins(name: &str) -> KernelError {
    driver(name).map_or_else(|error| error, |_| KernelError::PinsGone)
}

/// Unregisters a kernel driver whose pins are gone.
fn remove_unpinned_driver(name: &str) -> Result<(Installed, Removed), KernelError> {
    let (found, shared) = driver(name)?;
    let installed = shared.installed();
    let is_known = installed.layout == LAYOUT;
    if is_known {
        shared.set_removed();
    }
    found.unregister().map_err(KernelError::system("unregistering the congestion control"))?;
    let sockets = is_known.then_some(installed.sockets);
    Ok((installed, Removed { sockets }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_installed_is_not_installed() {
        let error = installed("cellpace_nobody").unwrap_err();
        assert!(matches!(error, KernelError::NotInstalled), "{error}");
        assert!(matches!(remove("cellpace_nobody"), Err(KernelError::NotInstalled)));
    }
}
