//! Pins: the names by which what is in the kernel is found again, in `/run/cellpace/bpf`.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::bpf::{Map, TcxLink};
use crate::KernelError;

pub(crate) const BPFFS: &str = "/run/cellpace/bpf";

/// The folder of pins of the kernel driver with this name.
pub fn pins(name: &str) -> PathBuf {
    Path::new(BPFFS).join(name)
}

/// Where an installation pins before it shows the pins under their name. No driver is called so.
pub(crate) fn unfinished(name: &str) -> PathBuf {
    pins(&format!("{name}~new"))
}

/// Of the pins of links, by which the devices are named.
const PROMPT: &str = "prompt_";

/// Name of the pin for a device. bpffs takes no dots.
#[cfg(feature = "install")]
pub(crate) fn prompt_pin(device: &str) -> String {
    PROMPT.to_owned() + &device.replace('%', "%25").replace('.', "%2e")
}

/// The other way round.
pub(crate) fn device_of(pin: &str) -> Option<String> {
    Some(pin.strip_prefix(PROMPT)?.replace("%2e", ".").replace("%25", "%"))
}

/// Whether a pin is a link, which is root's alone: who may open it may detach it.
pub(crate) fn is_link(pin: &Path) -> bool {
    pin.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PROMPT))
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
        let _ = TcxLink::open(pin).and_then(|link| link.detach());
    }
    fs::remove_file(pin)
}

/// Whether a pin holds a congestion control: the link that registers it or, before Linux 6.4, its map. `None`:
/// there is no pin.
pub(crate) fn holds_congestion_control(pin: &Path) -> io::Result<Option<bool>> {
    let object = match Map::open(pin) {
        Ok(object) => object,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Not a pin: a folder, or a file that something else has put there.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) || pin.is_dir() => {
            return Ok(Some(false));
        }
        Err(error) => return Err(error),
    };
    let facts = fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_fd().as_raw_fd()))?;
    let is = |line: &str| {
        let mut words = line.split_whitespace();
        // `BPF_MAP_TYPE_STRUCT_OPS` is 26.
        matches!(
            (words.next(), words.next()),
            (Some("link_type:"), Some("struct_ops")) | (Some("map_type:"), Some("26"))
        )
    };
    Ok(Some(facts.lines().any(is)))
}

/// Opens a pin; an error says what it means that this does not work.
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
}
