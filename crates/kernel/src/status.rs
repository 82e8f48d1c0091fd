//! What is installed, and its removal. Neither needs libbpf.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::bpffs::pins;
use crate::layout::LAYOUT;
use crate::slots::Shared;
use crate::sys::{Link, Map};
use crate::{KernelError, registered};

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
    /// Its name in the network namespace of whoever installed it, at that time.
    pub device: String,
    /// Whether it is still there. `None`: only root may ask.
    pub attached: Option<bool>,
}

/// What is installed under a name.
///
/// # Errors
/// [`KernelError::NotInstalled`], [`KernelError::PinsGone`], or why it cannot be looked at.
pub fn installed(name: &str) -> Result<Installed, KernelError> {
    let pins = pins(name);
    let shared = match open(&pins, "shared") {
        Err(KernelError::NotInstalled) => return Err(registered::without_pins(name)),
        shared => Shared::map_any(&shared?)?,
    };
    let mut installed = shared.installed();
    // Removed where its pins were not to be seen, or half removed.
    if installed.layout == LAYOUT && shared.is_removed() {
        return Err(KernelError::NotInstalled);
    }
    installed.prompt_acks = prompt_acks(&pins);
    Ok(installed)
}

/// Of the pins of links, by which the devices are named.
const PROMPT: &str = "prompt_";

/// Name of the pin for a device. bpffs takes no dots.
#[cfg(feature = "install")]
pub(crate) fn prompt_pin(device: &str) -> String {
    PROMPT.to_owned() + &device.replace('%', "%25").replace('.', "%2e")
}

/// The other way round.
fn device_of(pin: &str) -> Option<String> {
    Some(pin.strip_prefix(PROMPT)?.replace("%2e", ".").replace("%25", "%"))
}

/// Whether a pin is a link, which is root's alone: who may open it may detach it.
pub(crate) fn is_link(pin: &Path) -> bool {
    pin.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PROMPT))
}

fn prompt_acks(pins: &Path) -> Vec<PromptAcks> {
    let entries = fs::read_dir(pins).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let device = device_of(&entry.file_name().to_string_lossy())?;
            let attached = Link::open(&entry.path()).and_then(|link| link.is_attached()).ok();
            Some(PromptAcks { device, attached })
        })
        .collect();
    found.sort_unstable();
    found
}

/// What a removal left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Sockets that go on by RFC 5681 until they close. `None`: of another version, who knows.
    pub sockets: Option<u64>,
}

/// Takes the congestion control out of the kernel and removes the pins. Sockets that use it keep
/// their connections and look after themselves, by RFC 5681. Also one whose pins are gone.
///
/// # Errors
/// [`KernelError::NotInstalled`] when nothing is there; needs the rights of whoever installed it,
/// and CAP_SYS_ADMIN when pins are gone.
pub fn remove(name: &str) -> Result<Removed, KernelError> {
    match remove_pinned(name) {
        Err(KernelError::NotInstalled) => remove_unpinned(name).map(|(_, removed)| removed),
        result => result,
    }
}

/// Only what is ours for certain. Pins that are left are removed as well.
pub(crate) fn remove_unpinned(name: &str) -> Result<(Installed, Removed), KernelError> {
    let removed = registered::remove_driver(name)?;
    match remove_pins(&pins(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => result.map_err(KernelError::system("removing the pins"))?,
    }
    Ok(removed)
}

fn remove_pinned(name: &str) -> Result<Removed, KernelError> {
    let pins = pins(name);
    let shared = Shared::map(&open(&pins, "shared")?);
    let congestion_control = open(&pins, "cc")?;
    if let Ok(shared) = &shared {
        shared.set_removed();
    }
    registered::unregister(&congestion_control)
        .map_err(KernelError::system("unregistering the congestion control"))?;
    remove_pins(&pins).map_err(KernelError::system("removing the pins"))?;
    Ok(Removed { sockets: shared.ok().map(|shared| shared.installed().sockets) })
}

pub(crate) fn remove_pins(pins: &Path) -> io::Result<()> {
    for entry in fs::read_dir(pins)? {
        remove_pin(&entry?.path())?;
    }
    fs::remove_dir(pins)
}

/// Also detaches what is attached by it.
pub(crate) fn remove_pin(pin: &Path) -> io::Result<()> {
    if is_link(pin) {
        // Else its last holder does, or the device is gone.
        let _ = Link::open(pin).and_then(|link| link.detach());
    }
    fs::remove_file(pin)
}

/// Opens a pin, and says what it means when that does not work.
pub(crate) fn open(pins: &Path, pin: &str) -> Result<Map, KernelError> {
    Map::open(&pins.join(pin)).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => KernelError::NotInstalled,
        Some(libc::EACCES) => no_permission(pins),
        Some(libc::EPERM) => KernelError::Unsupported(
            "bpf(2) is refused to this process (a seccomp filter, as containers have one)".into(),
        ),
        // Not a file of bpffs.
        Some(libc::EINVAL) => KernelError::NotInstalled,
        Some(libc::ENOSYS) => KernelError::Unsupported("it has no bpf(2)".into()),
        _ => KernelError::System { doing: "opening the kernel driver", source: error },
    })
}

fn no_permission(pins: &Path) -> KernelError {
    // Whoever may not even look at the folder is kept out by the folder above.
    let who = who(pins).unwrap_or_else(|| "root alone".to_owned());
    KernelError::NoPermission { path: pins.to_owned(), who }
}

/// Who may open the pins in a folder, in words; `None` when it is not there.
pub(crate) fn who(pins: &Path) -> Option<String> {
    let folder = fs::metadata(pins).ok()?;
    Some(match folder.mode() {
        mode if mode & 0o001 != 0 => "everyone".to_owned(),
        mode if mode & 0o010 != 0 => format!("root and group {}", group_name(folder.gid())),
        _ => "root alone".to_owned(),
    })
}

/// From /etc/group: groups that a directory service has keep their numbers.
pub(crate) fn group_name(gid: u32) -> String {
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| gid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_or_numbers() {
        assert_eq!(group_name(0), "root");
        assert_eq!(group_name(4_000_000_000), "4000000000");
    }

    #[cfg(feature = "install")]
    #[test]
    fn names_of_devices_are_names_of_pins() {
        for device in ["eth0", "eth0.5", "100%", "%2e.", "wlan-1"] {
            let pin = prompt_pin(device);
            assert!(!pin.contains('.') && is_link(Path::new(&pin)), "{pin}");
            assert_eq!(device_of(&pin).as_deref(), Some(device));
        }
        assert_eq!(device_of("cc"), None);
        assert!(!is_link(Path::new("/run/cellpace/bpf/prompt_x/cc")));
    }

    #[test]
    fn what_nobody_installed_is_not_installed() {
        let error = installed("cellpace_nobody").unwrap_err();
        assert!(matches!(error, KernelError::NotInstalled), "{error}");
        assert!(matches!(remove("cellpace_nobody"), Err(KernelError::NotInstalled)));
    }
}
