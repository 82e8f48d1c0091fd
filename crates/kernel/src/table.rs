//! A Markov table that is a congestion control in the kernel: what is known of it, and its removal.
//! Neither needs libbpf.

use crate::KernelError;
use crate::host::ids::{self, KnownMap};
use crate::host::pins::pins;
use crate::host::registered::{ARRAY, Registered, find, is_listed, unseen};
use crate::native::removal::remove_ours;

/// What `sysctl`, `ip route` and setsockopt know the congestion control by.
pub const NAME: &str = "cellpace_mdi";

/// `MDIF`, the first word of the flat form.
const MAGIC: u32 = u32::from_le_bytes(*b"MDIF");
/// `TCP_CONG_NON_RESTRICTED`
const EVERYONE: u32 = 1;

/// Where things stand in `model` of bpf/mdi.bpf.c.
pub(crate) mod at {
    use std::ops::Range;

    pub(crate) const KIND: usize = 8;
    pub(crate) const DELAYS: usize = 56;
    pub(crate) const WINDOWS: usize = 60;
    #[cfg(feature = "install")]
    pub(crate) const HEADER: Range<usize> = 0..80;
    pub(crate) const SEED: Range<usize> = 80..88;
    pub(crate) const SLOW_START: Range<usize> = 88..92;
    pub(crate) const SHA256: Range<usize> = 96..128;
    pub(crate) const TEACHER: Range<usize> = 128..192;
    pub(crate) const CONTROLLER: Range<usize> = 192..320;
}

/// Where a table comes from; the kernel keeps it beside the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOrigin {
    /// From whom it was learnt, as on the command line (`verus:r=2`); empty: unknown.
    pub teacher: String,
    /// The controller string that it was installed with (`mdi:model=FILE`); empty: unknown.
    pub controller: String,
    /// SHA-256 of its flat form with its rules, as `cellpace mdi convert -o FILE.flat` writes it;
    /// zeros: unknown.
    pub sha256: [u8; 32],
}

/// A table that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledTable {
    /// Name of the congestion control.
    pub name: String,
    /// Where it comes from. Texts may be cut, at 63 and 127 bytes.
    pub origin: TableOrigin,
    /// `absolute`, `relative` or `levels`.
    pub kind: &'static str,
    /// How many states there are, seen ones or not.
    pub states: u64,
    /// Kernel memory of the table without that of sockets, in bytes; `None`: the kernel does not
    /// tell.
    pub memory: Option<u64>,
    /// Sockets that use it, listening ones too, and network namespaces whose default it is. Those
    /// that keep to a table before this one are not among them.
    pub sockets: u64,
    /// Whether users without privilege may select it by setsockopt(2).
    pub everyone: bool,
    /// Whether a slow start goes in front of the walk.
    pub slow_start: bool,
    /// Seed of the walks; 0: random ones.
    pub seed: u64,
    /// Whether its pin is there. Without it, it is registered because somebody else holds it.
    pub pinned: bool,
}

/// The table that is registered under a name, if there is one.
///
/// # Errors
/// [`KernelError::Unseen`] when something has the name and this process may not look what it is.
pub fn installed(name: &str) -> Result<Option<InstalledTable>, KernelError> {
    if !is_listed(name) {
        return Ok(None);
    }
    let found = find(name).map_err(|error| unseen(name, error))?;
    Ok(found.and_then(|found| describe(name, &found)))
}

/// Whether a congestion control is one of ours with a table.
pub(crate) fn is_table(found: &Registered) -> bool {
    model(found).is_some()
}

/// `model` of bpf/mdi.bpf.c, of this version or an earlier one.
fn model(found: &Registered) -> Option<Vec<u8>> {
    let is_it = |map: &&KnownMap| map.kind == ARRAY && map.name.ends_with(".rodata.model");
    let model = found.maps.iter().find(is_it)?.first_value().ok()?;
    (model.len() >= at::SLOW_START.end && word(&model, 0) == MAGIC).then_some(model)
}

fn describe(name: &str, found: &Registered) -> Option<InstalledTable> {
    let model = model(found)?;
    let text = |range| model.get(range).map(ids::text).unwrap_or_default();
    let sha256 = model.get(at::SHA256).and_then(|bytes| bytes.try_into().ok());
    let origin = TableOrigin {
        teacher: text(at::TEACHER),
        controller: text(at::CONTROLLER),
        sha256: sha256.unwrap_or_default(),
    };
    let table = found.maps.iter().find(|map| map.name == "table");
    Some(InstalledTable {
        name: name.to_owned(),
        origin,
        kind: match word(&model, at::KIND) {
            0 => "absolute",
            1 => "relative",
            _ => "levels",
        },
        states: u64::from(word(&model, at::DELAYS)) * u64::from(word(&model, at::WINDOWS)),
        memory: table.and_then(KnownMap::memory),
        sockets: found.sockets(),
        everyone: found.flags() & EVERYONE != 0,
        slow_start: word(&model, at::SLOW_START.start) != 0,
        seed: u64::from_ne_bytes(model.get(at::SEED)?.try_into().ok()?),
        pinned: pins(name).exists(),
    })
}

/// Callers know that it is there.
fn word(model: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([model[at], model[at + 1], model[at + 2], model[at + 3]])
}

/// Writes a text so that a zero follows.
pub(crate) fn put_text(place: &mut [u8], text: &str) {
    let ends = (0..place.len()).filter(|end| text.is_char_boundary(*end));
    let length = ends.max().unwrap_or(0);
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
}

/// Removes a table from the kernel, and its pin. Connections that run keep to it until they end;
/// new ones cannot have it. Also one whose pin is gone, if it is one of ours. Returns whether there
/// was one.
///
/// # Errors
/// When this process may not, or when another one holds it and the kernel is too old.
pub fn remove(name: &str) -> Result<bool, KernelError> {
    remove_ours(name, is_table)
}

#[cfg(all(test, feature = "install"))]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_a_letter_ends() {
        let mut place = [0; 4];
        put_text(&mut place, "aäb");
        assert_eq!(ids::text(&place), "aä");
        let mut place = [0; 4];
        put_text(&mut place, "aaä");
        assert_eq!(ids::text(&place), "aa");
    }

    #[test]
    fn what_has_no_table_is_not_one() {
        assert_eq!(installed("cellpace_nobody").unwrap(), None);
        assert!(!remove("cellpace_nobody").unwrap());
        let removed = remove("reno");
        let is_kept = matches!(removed, Ok(false) | Err(KernelError::Unseen(_)));
        assert!(is_kept, "it is the kernel's own: {removed:?}");
        assert!(is_listed("reno"));
    }
}
