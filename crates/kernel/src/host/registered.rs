//! What is registered as a congestion control in the running kernel, found without a pin: by the
//! numbers of its maps. Only root may look there (CAP_SYS_ADMIN).

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::bpf::Map;
use super::btf::{ValueLayout, btf_path, value_layout};
use super::ids::{self, KnownMap, ObjectKind};
use crate::KernelError;

/// `BPF_MAP_TYPE_STRUCT_OPS`
const STRUCT_OPS: u32 = 26;
/// `BPF_MAP_TYPE_ARRAY`
pub(crate) const ARRAY: u32 = 2;
/// `BPF_F_LINK`: a link registers the map, from Linux 6.4, not its value.
const BY_LINK: u32 = 1 << 13;
/// `BPF_STRUCT_OPS_STATE_INUSE`
const IN_USE: u32 = 1;
/// `TCP_CA_NAME_MAX`
const NAME_BYTES: usize = 16;

/// A congestion control in BPF that is registered, by any process.
#[derive(Debug)]
pub(crate) struct Registered {
    map: KnownMap,
    link: Option<OwnedFd>,
    value: Vec<u8>,
    layout: ValueLayout,
    /// Those that its program works with.
    pub(crate) maps: Vec<KnownMap>,
}

/// Whether a congestion control of this name is registered, of whatever kind. Everybody may ask;
/// `false` where /proc does not show it.
pub(crate) fn is_listed(name: &str) -> bool {
    listed().iter().any(|listed| listed == name)
}

/// The names of all congestion controls.
pub(crate) fn listed() -> Vec<String> {
    let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    names.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The one of this name, if it is in BPF.
pub(crate) fn find(name: &str) -> io::Result<Option<Registered>> {
    let Ok(btf) = fs::read(btf_path()) else { return Ok(None) };
    let Some(layout) = value_layout(&btf) else { return Ok(None) };
    for number in ids::all(ObjectKind::Map) {
        let Some(map) = KnownMap::open(number?)? else { continue };
        if map.kind != STRUCT_OPS || map.value_type != layout.type_id {
            continue;
        }
        let value = map.first_value()?;
        if value.get(layout.name..layout.name + NAME_BYTES).map(ids::text).as_deref() != Some(name)
        {
            continue;
        }
        // Maps of old stay while sockets use them.
        let link = match map.flags & BY_LINK {
            0 if word(&value, 4) != Some(IN_USE) => continue,
            0 => None,
            _ => match ids::link_of(map.number)? {
                Some(link) => Some(link),
                None => continue,
            },
        };
        let program = word(&value, layout.cong_control).unwrap_or_default();
        let maps = ids::maps_of(program)?;
        return Ok(Some(Registered { map, link, value, layout, maps }));
    }
    Ok(None)
}

impl Registered {
    /// Sockets that have selected it, listening ones and defaults of network namespaces with them.
    pub(crate) fn sockets(&self) -> u64 {
        // The registration itself counts as well.
        word(&self.value, 0).unwrap_or_default().saturating_sub(1).into()
    }

    /// The flags of `struct tcp_congestion_ops`.
    pub(crate) fn flags(&self) -> u32 {
        word(&self.value, self.layout.flags).unwrap_or_default()
    }

    /// Sockets that use it keep to it.
    pub(crate) fn unregister(&self) -> io::Result<()> {
        match &self.link {
            Some(link) => ids::detach(link.as_fd()),
            None => unregister(&self.map.map),
        }
    }
}

/// Unregisters a struct_ops map that no link registered.
pub(crate) fn unregister(map: &Map) -> io::Result<()> {
    let deleted = map.delete(&0u32.to_ne_bytes());
    match deleted.as_ref().err().and_then(io::Error::raw_os_error) {
        // It has been done before: an earlier removal came as far as here, or somebody was faster.
        // The second as long as the map is there still.
        Some(libc::ENOENT | libc::EINPROGRESS) => Ok(()),
        _ => deleted,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

pub(crate) fn unseen(name: &str, error: io::Error) -> KernelError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => KernelError::Unseen(name.to_owned()),
        _ => KernelError::system("looking for what is registered")(error),
    }
}
