//! Objects of BPF, and what of them fits the running kernel.

use std::io;

use libbpf_rs::{MapType, ObjectBuilder, OpenMapMut, OpenObject};

use crate::host::btf::CallbackVariant;

/// The congestion control of the kernel driver as clang left it.
pub const CELLPACE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cellpace.bpf.o"));

/// An object of which only the congestion control for `variant` will be loaded: the struct_ops map
/// whose name ends in `ack_args`, not the one that ends in `rs_args`, or vice versa. It is called
/// `name`, at most 15 bytes.
///
/// # Errors
/// What libbpf reports.
pub fn open_object(
    bytes: &[u8],
    variant: CallbackVariant,
    name: &str,
) -> libbpf_rs::Result<OpenObject> {
    let mut object = ObjectBuilder::default().open_memory(bytes)?;
    for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        let is_wanted = map.name().to_string_lossy().ends_with(suffix(variant));
        map.set_autocreate(is_wanted)?;
        if is_wanted {
            rename(&mut map, name)?;
        }
    }
    Ok(object)
}

/// End of the name of the struct_ops map for a variant.
pub fn suffix(variant: CallbackVariant) -> &'static str {
    match variant {
        CallbackVariant::Ack => "ack_args",
        CallbackVariant::Sample => "rs_args",
    }
}

/// The name is the first member of `struct tcp_congestion_ops` as bpf/kernel.h has it.
fn rename(map: &mut OpenMapMut<'_>, name: &str) -> io::Result<()> {
    let value = map.initial_value_mut().ok_or(io::ErrorKind::InvalidData)?;
    let place = value.get_mut(..16).ok_or(io::ErrorKind::InvalidData)?;
    if name.is_empty() || name.len() > 15 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    place.fill(0);
    place[..name.len()].copy_from_slice(name.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use libbpf_rs::OpenMap;

    use super::*;
    use crate::driver::layout::{CONTROL_BYTES, at};

    #[test]
    fn each_kernel_has_the_one_variant_that_fits_under_the_name_asked_for() {
        for variant in [CallbackVariant::Ack, CallbackVariant::Sample] {
            let object = open_object(CELLPACE, variant, "fifteen_letters").unwrap();
            let maps = object.maps().filter(|map| map.map_type() == MapType::StructOps);
            let wanted: Vec<_> = maps.filter(OpenMap::autocreate).collect();
            assert_eq!(wanted.len(), 1, "{variant:?}");
            assert!(wanted[0].name().to_string_lossy().ends_with(suffix(variant)));
            assert_eq!(&wanted[0].initial_value().unwrap()[..16], b"fifteen_letters\0");
        }
        assert!(open_object(CELLPACE, CallbackVariant::Ack, "sixteen_letters_").is_err());
        assert!(open_object(b"no object", CallbackVariant::Ack, "cellpace").is_err());
    }

    #[test]
    fn the_program_and_user_space_have_the_same_layout() {
        let object = open_object(CELLPACE, CallbackVariant::Ack, "cellpace").unwrap();
        let size = |name: &str| {
            let found = object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
            found.unwrap().value_size() as usize
        };
        assert_eq!(size("controls"), CONTROL_BYTES);
        assert_eq!(size(".shared"), at::END);
    }
}
