//! What the running kernel's types (BTF) show of its congestion controls.

use std::path::PathBuf;

use thiserror::Error;

/// What the kernel passes to `cong_control`, of which the program has both variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackVariant {
    /// From Linux 6.10: the socket, the acknowledged number, flags and the rate sample.
    Ack,
    /// Before: the socket and the rate sample.
    Sample,
}

/// Why no variant fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BtfError {
    /// Cut off, or of another format.
    #[error("its BTF does not read")]
    Broken,
    /// No program can be a congestion control.
    #[error(
        "it was built without congestion controls in BPF (Linux 5.6 with CONFIG_BPF_JIT has them)"
    )]
    NoStructOps,
    /// A later kernel changed the callback once more.
    #[error("it calls congestion controls in a way that this cellpace does not know")]
    Unknown,
}

const MAGIC: u32 = 0xeb9f;
const TYPE_BYTES: usize = 12;

/// The variant for a kernel with this BTF (`/sys/kernel/btf/vmlinux`).
///
/// # Errors
/// Why there is none.
pub fn variant(btf: &[u8]) -> Result<CallbackVariant, BtfError> {
    let types = Types::index(btf)?;
    // The kernel wraps each kind of program callbacks that it knows in a struct with this name.
    types.structure("bpf_struct_ops_tcp_congestion_ops").ok_or(BtfError::NoStructOps)?;
    let operations = types.structure("tcp_congestion_ops").ok_or(BtfError::NoStructOps)?;
    let pointer = types.member(operations, "cong_control").ok_or(BtfError::NoStructOps)?;
    let prototype = types.target(pointer, BtfKind::POINTER).ok_or(BtfError::Unknown)?;
    match types.get(prototype) {
        Some(found) if found.kind == BtfKind::PROTOTYPE && found.count == 4 => {
            Ok(CallbackVariant::Ack)
        }
        Some(found) if found.kind == BtfKind::PROTOTYPE && found.count == 2 => {
            Ok(CallbackVariant::Sample)
        }
        _ => Err(BtfError::Unknown),
    }
}

/// Where the kernel shows things in the value of a struct_ops map with a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueLayout {
    /// Number of the value's type, which the map's facts name as well.
    pub(crate) type_id: u32,
    /// Byte at which the name begins.
    pub(crate) name: usize,
    /// Byte at which the flags begin, four bytes.
    pub(crate) flags: usize,
    /// Byte at which the number of the program of `cong_control` begins.
    pub(crate) cong_control: usize,
}

/// The layout for a kernel with this BTF; `None`: it has no such maps.
pub(crate) fn value_layout(btf: &[u8]) -> Option<ValueLayout> {
    let types = Types::index(btf).ok()?;
    let type_id = types.structure_number("bpf_struct_ops_tcp_congestion_ops")?;
    let operations = types.structure("tcp_congestion_ops")?;
    let data = types.offset(types.get(type_id)?, "data")?;
    let place = |member| types.offset(operations, member).map(|at| data + at);
    Some(ValueLayout {
        type_id,
        name: place("name")?,
        flags: place("flags")?,
        cong_control: place("cong_control")?,
    })
}

/// Whether a kernel with this BTF has links to congestion controls (Linux 6.4), by which one is
/// replaced while connections use it.
///
/// # Errors
/// When it does not read.
pub(crate) fn has_links(btf: &[u8]) -> Result<bool, BtfError> {
    let types = Types::index(btf)?;
    // What a link's update calls came with links.
    let callbacks = types.structure("bpf_struct_ops");
    Ok(callbacks.is_some_and(|callbacks| types.member(callbacks, "update").is_some()))
}

/// Numbers from include/uapi/linux/btf.h.
struct BtfKind;

impl BtfKind {
    const POINTER: u32 = 2;
    const STRUCT: u32 = 4;
    const PROTOTYPE: u32 = 13;

    /// Bytes that follow a type.
    fn extra(kind: u32, count: usize) -> Option<usize> {
        Some(match kind {
            1 | 14 | 17 => 4,
            3 => 12,
            4 | 5 | 15 | 19 => 12 * count,
            6 | 13 => 8 * count,
            2 | 7..=12 | 16 | 18 => 0,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    /// Members or parameters.
    count: usize,
    /// The size, or the type that this one refers to.
    target: u32,
    /// Where members begin.
    members: usize,
}

struct Types<'a> {
    bytes: &'a [u8],
    strings: &'a [u8],
    /// The first has number 1.
    types: Vec<Type>,
}

impl<'a> Types<'a> {
    fn index(btf: &'a [u8]) -> Result<Self, BtfError> {
        let word = |at| word(btf, at).ok_or(BtfError::Broken);
        if word(0)? & 0xffff != MAGIC {
            return Err(BtfError::Broken);
        }
        let body = btf.get(word(4)? as usize..).ok_or(BtfError::Broken)?;
        let bytes = part(body, word(8)?, word(12)?).ok_or(BtfError::Broken)?;
        let strings = part(body, word(16)?, word(20)?).ok_or(BtfError::Broken)?;
        let mut types = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let found = read_type(bytes, at).ok_or(BtfError::Broken)?;
            at = found.members + BtfKind::extra(found.kind, found.count).ok_or(BtfError::Broken)?;
            types.push(found);
        }
        Ok(Self { bytes, strings, types })
    }

    fn get(&self, number: u32) -> Option<&Type> {
        self.types.get((number as usize).checked_sub(1)?)
    }

    fn structure(&self, name: &str) -> Option<&Type> {
        self.get(self.structure_number(name)?)
    }

    fn structure_number(&self, name: &str) -> Option<u32> {
        let is_it = |found: &Type| found.kind == BtfKind::STRUCT && self.is(found.name, name);
        u32::try_from(self.types.iter().position(is_it)? + 1).ok()
    }

    /// Number of the type of a member.
    fn member(&self, of: &Type, name: &str) -> Option<u32> {
        word(self.bytes, self.place(of, name)? + 4)
    }

    /// Byte at which a member begins in its struct.
    fn offset(&self, of: &Type, name: &str) -> Option<usize> {
        // The upper byte is for members that are single bits.
        let bits = word(self.bytes, self.place(of, name)? + 8)? & 0xff_ffff;
        Some(bits as usize / 8)
    }

    /// Where a member is described.
    fn place(&self, of: &Type, name: &str) -> Option<usize> {
        let mut places = (0..of.count).map(|number| of.members + 12 * number);
        places.find(|at| word(self.bytes, *at).is_some_and(|offset| self.is(offset, name)))
    }

    fn target(&self, number: u32, kind: u32) -> Option<u32> {
        self.get(number).filter(|found| found.kind == kind).map(|found| found.target)
    }

    fn is(&self, offset: u32, name: &str) -> bool {
        let Some(rest) = self.strings.get(offset as usize..) else { return false };
        rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn read_type(bytes: &[u8], at: usize) -> Option<Type> {
    let info = word(bytes, at + 4)?;
    Some(Type {
        name: word(bytes, at)?,
        kind: (info >> 24) & 0x1f,
        count: (info & 0xffff) as usize,
        target: word(bytes, at + 8)?,
        members: at + TYPE_BYTES,
    })
}

fn part(bytes: &[u8], from: u32, length: u32) -> Option<&[u8]> {
    bytes.get(from as usize..)?.get(..length as usize)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

/// Where the running kernel's types are. The environment variable CELLPACE_KERNEL_BTF names
/// another place: for a kernel that has them elsewhere, and to see what happens without.
pub fn btf_path() -> PathBuf {
    std::env::var_os("CELLPACE_KERNEL_BTF").map_or("/sys/kernel/btf/vmlinux".into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[u8] =
        b"\0tcp_congestion_ops\0cong_control\0bpf_struct_ops_tcp_congestion_ops\0ssthresh\0\
        bpf_struct_ops\0update\0";
    const OPS: u32 = 1;
    const CONTROL: u32 = 20;
    const WRAPPER: u32 = 33;
    const SSTHRESH: u32 = 67;
    const CALLBACKS: u32 = 76;
    const UPDATE: u32 = 91;

    /// A kernel whose `cong_control` has so many parameters; without callbacks if `wrapper` is not
    /// its name.
    fn kernel(parameters: u32, wrapper: u32) -> Vec<u8> {
        kernel_with(parameters, wrapper, SSTHRESH)
    }

    /// The same, where the kinds of callbacks have a member of this name.
    fn kernel_with(parameters: u32, wrapper: u32, member: u32) -> Vec<u8> {
        let mut types: Vec<u32> = Vec::new();
        types.extend([0, BtfKind::PROTOTYPE << 24 | parameters, 0]); // number 1
        types.extend((0..2 * parameters).map(|_| 0));
        types.extend([0, BtfKind::POINTER << 24, 1]); // number 2
        types.extend([0, BtfKind::POINTER << 24, 0]); // number 3
        types.extend([OPS, BtfKind::STRUCT << 24 | 2, 16, SSTHRESH, 3, 0, CONTROL, 2, 64]);
        types.extend([wrapper, BtfKind::STRUCT << 24, 0]);
        types.extend([CALLBACKS, BtfKind::STRUCT << 24 | 1, 8, member, 3, 0]);
        let length = types.len() as u32 * 4;
        let header = [MAGIC | 1 << 16, 24, 0, length, length, NAMES.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        words.chain(NAMES.iter().copied()).collect()
    }

    #[test]
    fn four_parameters_are_linux_6_10_and_two_are_before() {
        assert_eq!(variant(&kernel(4, WRAPPER)), Ok(CallbackVariant::Ack));
        assert_eq!(variant(&kernel(2, WRAPPER)), Ok(CallbackVariant::Sample));
        assert_eq!(variant(&kernel(3, WRAPPER)), Err(BtfError::Unknown));
        assert_eq!(variant(&kernel(4, 0)), Err(BtfError::NoStructOps));
    }

    #[test]
    fn links_are_known_by_what_updates_them() {
        assert_eq!(has_links(&kernel_with(4, WRAPPER, UPDATE)), Ok(true));
        assert_eq!(has_links(&kernel(2, WRAPPER)), Ok(false));
        assert_eq!(has_links(&[]), Err(BtfError::Broken));
    }

    #[test]
    fn what_is_cut_anywhere_is_refused() {
        let whole = kernel(4, WRAPPER);
        for length in 0..whole.len() {
            assert!(variant(&whole[..length]).is_err(), "{length} bytes");
        }
        let mut other = whole.clone();
        other[0] ^= 1;
        assert_eq!(variant(&other), Err(BtfError::Broken));
        // A kind of type that we cannot pass over.
        let mut other = whole;
        other[24 + 7] = 31;
        assert_eq!(variant(&other), Err(BtfError::Broken));
    }

    #[test]
    fn without_all_members_there_is_no_layout_of_the_value() {
        assert_eq!(value_layout(&kernel(4, WRAPPER)), None);
        assert_eq!(value_layout(b"no BTF"), None);
    }

    #[test]
    fn the_kernel_that_runs_has_a_variant() {
        match std::fs::read("/sys/kernel/btf/vmlinux") {
            Ok(btf) => {
                assert!(variant(&btf).is_ok());
                let layout = value_layout(&btf).unwrap();
                // The count and the state come first, and the program's number has eight bytes.
                assert!(
                    layout.name >= 8 && layout.flags >= 8 && layout.cong_control.is_multiple_of(8)
                );
            }
            Err(error) => cellpace_testing::skip(format_args!("this kernel has no BTF: {error}")),
        }
    }
}
