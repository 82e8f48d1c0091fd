//! What is known of a controller that runs in the kernel by itself. Needs no libbpf.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::removal::remove_ours;
use crate::KernelError;
use crate::host::ids::{self, KnownMap};
use crate::host::pins::pins;
use crate::host::registered::{ARRAY, Registered, find, is_listed, listed, unseen};
use crate::table::put_text;

/// The default of a network namespace: that of this process.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// `TCP_CONG_NON_RESTRICTED`
const EVERYONE: u32 = 1;

/// A controller that has a program of its own for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeController {
    /// Pace.
    Pace,
    /// Copa.
    Copa,
}

impl NativeController {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Pace, Self::Copa];

    /// The one with this name in the registry of controllers.
    pub fn of(controller: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|native| native.controller() == controller)
    }

    /// Its name in the registry of controllers.
    pub const fn controller(self) -> &'static str {
        match self {
            Self::Pace => "pace",
            Self::Copa => "copa",
        }
    }

    /// What `sysctl`, `ip route` and setsockopt(2) know it by.
    pub const fn congestion_control(self) -> &'static str {
        match self {
            Self::Pace => "cellpace_pace",
            Self::Copa => "cellpace_copa",
        }
    }
}

/// `struct native_about` of bpf/native.h.
pub(crate) mod at {
    use std::ops::Range;

    pub(crate) const MAGIC: Range<usize> = 0..8;
    pub(crate) const PROGRAM: Range<usize> = 8..16;
    pub(crate) const INSTALLED_AT: Range<usize> = 16..24;
    pub(crate) const CONTROLLER: Range<usize> = 24..88;
    pub(crate) const VERSION: Range<usize> = 88..104;
    pub(crate) const BEFORE: Range<usize> = 104..120;
    #[cfg(feature = "install")]
    pub(crate) const END: usize = 120;
}

/// The first word of the settings: `CPNATIVE`.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"CPNATIVE");

/// A controller that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledNative {
    /// Name of the congestion control.
    pub name: String,
    /// The controller string that it was installed with (`pace:empty=2%`), cut at 63 bytes.
    pub controller: String,
    /// Version of the cellpace that installed it.
    pub version: String,
    /// When it was installed or its parameters were last changed, in seconds since 1970 (UTC).
    pub installed_at: u64,
    /// Sockets that use it, listening ones too, and network namespaces whose default it is. Those that
    /// keep to a program before this one are not among them.
    pub sockets: u64,
    /// Whether users without privilege may select it by setsockopt(2).
    pub everyone: bool,
    /// Whether its pin is there. Without it, it is registered because another process holds it.
    pub pinned: bool,
    /// The default of the network namespace of its installation before it became that.
    pub before: Option<String>,
    /// Which program it is.
    pub(crate) program: u64,
}

/// Whether a congestion control of this name is registered; any user may ask.
pub fn is_registered(name: &str) -> bool {
    is_listed(name)
}

/// The controller that is registered under a name, if there is one.
///
/// # Errors
/// [`KernelError::Unseen`] when something has the name and this process may not look what it is.
pub fn installed(name: &str) -> Result<Option<InstalledNative>, KernelError> {
    Ok(registered(name)?.and_then(|found| describe(name, &found)))
}

pub(crate) fn registered(name: &str) -> Result<Option<Registered>, KernelError> {
    if !is_listed(name) {
        return Ok(None);
    }
    find(name).map_err(|error| unseen(name, error))
}

/// Removes it from the kernel, and its pin. Connections that run keep to it until they end. Returns
/// whether there was one.
///
/// # Errors
/// When this process may not, or when another one holds it and the kernel is too old.
pub fn remove(name: &str) -> Result<bool, KernelError> {
    remove_ours(name, |found| settings(found).is_some())
}

/// Has no controller that is installed put a default back that is gone: that of before is `before`.
///
/// # Errors
/// When this process may not.
pub fn forget_default(name: &str, before: &str) -> Result<(), KernelError> {
    for listed in listed() {
        let Some(found) = registered(&listed)? else { continue };
        let Some((map, mut value)) = settings(&found) else { continue };
        if value.get(at::BEFORE).map(ids::text).as_deref() != Some(name) {
            continue;
        }
        value[at::BEFORE].fill(0);
        put_text(&mut value[at::BEFORE], before);
        map.map
            .update(&0_u32.to_ne_bytes(), &value)
            .map_err(KernelError::system("changing what is the default afterwards"))?;
    }
    Ok(())
}

/// Where the default of a network namespace is a congestion control, but in that of this process: `process 12`, or
/// `namespace NAME` of `ip netns`. Those that this process may not enter are left out.
pub fn other_defaults(name: &str) -> Vec<String> {
    let name = name.to_owned();
    // A thread of its own, as it does not come back from where it goes.
    let look = move || -> Vec<String> {
        let mut seen: BTreeSet<u64> = inode(Path::new("/proc/self/ns/net")).into_iter().collect();
        let found =
            namespaces().filter(|(_, file)| inode(file).is_some_and(|inode| seen.insert(inode)));
        let is_default = |file: &Path| {
            let Ok(namespace) = fs::File::open(file) else { return false };
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).is_ok()
                && default_here().as_ref() == Some(&name)
        };
        found.filter(|(_, file)| is_default(file)).map(|(what, _)| what).collect()
    };
    thread::spawn(look).join().unwrap_or_default()
}

/// The files of all network namespaces that are known here, and what each is of.
fn namespaces() -> impl Iterator<Item = (String, PathBuf)> {
    let files = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = files("/proc").filter_map(|entry| {
        let process = entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some((format!("process {process}"), entry.path().join("ns/net")))
    });
    let named = files("/run/netns");
    let named =
        named.map(|entry| (format!("namespace {}", entry.file_name().display()), entry.path()));
    named.chain(processes)
}

fn inode(file: &Path) -> Option<u64> {
    fs::metadata(file).ok().map(|facts| facts.ino())
}

/// The map of the settings, and its value.
pub(crate) fn settings(found: &Registered) -> Option<(&KnownMap, Vec<u8>)> {
    let map = found.maps.iter().find(|map| map.kind == ARRAY && map.name == "settings")?;
    let value = map.first_value().ok()?;
    (value.get(at::MAGIC) == Some(&MAGIC.to_ne_bytes())).then_some((map, value))
}

fn describe(name: &str, found: &Registered) -> Option<InstalledNative> {
    let (_, value) = settings(found)?;
    let text = |range: Range<usize>| value.get(range).map(ids::text).unwrap_or_default();
    let number = |range: Range<usize>| Some(u64::from_ne_bytes(value.get(range)?.try_into().ok()?));
    Some(InstalledNative {
        name: name.to_owned(),
        controller: text(at::CONTROLLER),
        version: text(at::VERSION),
        installed_at: number(at::INSTALLED_AT)?,
        sockets: found.sockets(),
        everyone: found.flags() & EVERYONE != 0,
        pinned: pins(name).exists(),
        before: Some(text(at::BEFORE)).filter(|before| !before.is_empty()),
        program: number(at::PROGRAM)?,
    })
}

/// The default of this network namespace; `None` where /proc does not show it.
pub fn default_here() -> Option<String> {
    fs::read_to_string(DEFAULT).ok().map(|text| text.trim_end().to_owned())
}

/// Whether the default of this network namespace may be a congestion control that is for privileged users:
/// only in the first one, in which the list of those for everyone can be written.
#[cfg(feature = "install")]
pub(crate) fn is_first_namespace() -> bool {
    let list = fs::metadata("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    list.map_or(true, |facts| facts.mode() & 0o200 != 0)
}

/// Makes a congestion control the default of this network namespace.
///
/// # Errors
/// When this process may not, or the kernel has none of that name.
pub fn set_default(name: &str) -> io::Result<()> {
    fs::write(DEFAULT, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_is_found_by_its_name_and_fits_into_the_kernels() {
        for native in NativeController::ALL {
            assert_eq!(NativeController::of(native.controller()), Some(native));
            assert!(native.congestion_control().len() < 16);
        }
        assert_eq!(NativeController::of("verus"), None);
    }

    #[test]
    fn what_is_the_kernels_own_is_not_one() {
        assert_eq!(installed("cellpace_nobody").unwrap(), None);
        let found = installed("reno");
        assert!(matches!(found, Ok(None) | Err(KernelError::Unseen(_))), "{found:?}");
        assert!(matches!(remove("reno"), Ok(false) | Err(KernelError::Unseen(_))));
    }
}
