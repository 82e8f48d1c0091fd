//! Objects of BPF and what of them fits the running kernel.

use libbpf_rs::{ObjectBuilder, OpenObject, Result};

/// The programs as clang left them.
pub const CELLPACE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cellpace.bpf.o"));

/// What the kernel passes to `cong_control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// From Linux 6.10: the socket, the acknowledged number, flags and the rate sample.
    Ack,
    /// Before: the socket and the rate sample.
    Sample,
}

/// An object of which only the congestion control for `variant` will be loaded: the struct_ops
/// map that is called `ack_args` or ends in it, not the one that ends in `rs_args` (or vice versa).
pub fn open_object(bytes: &[u8], variant: Variant) -> Result<OpenObject> {
    let mut object = ObjectBuilder::default().open_memory(bytes)?;
    let other = match variant {
        Variant::Ack => "rs_args",
        Variant::Sample => "ack_args",
    };
    for mut map in object.maps_mut() {
        if map.name().to_string_lossy().ends_with(other) {
            map.set_autocreate(false)?;
        }
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_loads() {
        let object = open_object(CELLPACE, Variant::Ack).unwrap();
        match object.load() {
            Ok(_) => {}
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}
