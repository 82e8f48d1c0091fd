//! Asks receivers for prompt acknowledgments: a program on what leaves by a device sets PSH in the
//! packets of sockets under control. Its links are pinned beside the maps, so that they outlive us.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{Object, ObjectBuilder};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;

use super::install_error::{InstallError, bpf, system};
use crate::facts;
use crate::host::bpf::TcxLink;
use crate::host::pins::{is_link, open, prompt_pin, remove_pin};

/// The program as clang left it.
const PROMPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/prompt.bpf.o"));

/// Links of programs to devices' packets.
const TCX: (u32, u32) = (6, 6);

/// A device of the network namespace that we are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    name: String,
    index: u32,
}

/// The devices with these names, each once, and the names of those that are not there.
pub(crate) fn devices(names: &[String]) -> Result<(Vec<Device>, Vec<String>), InstallError> {
    let (mut found, mut missing) = (Vec::<Device>::new(), Vec::new());
    for name in names {
        match if_nametoindex(name.as_str()) {
            // A device may have several names.
            Ok(index) if found.iter().any(|device| device.index == index) => {}
            Ok(index) => found.push(Device { name: name.clone(), index }),
            Err(Errno::ENODEV | Errno::EINVAL | Errno::ENXIO) => missing.push(name.clone()),
            Err(error) => return Err(system("looking for a network device")(error)),
        }
    }
    Ok((found, missing))
}

/// Attaches to these devices, and to no others any more. Nothing has changed when it fails.
pub(crate) fn set(folder: &Path, devices: &[Device]) -> Result<(), InstallError> {
    if devices.is_empty() {
        return take_away(folder);
    }
    let links = attach(folder, devices)?;
    let pinned = devices.iter().zip(&links).try_for_each(|(device, link)| {
        link.pin(&aside(folder, device)).map_err(system("pinning a link"))
    });
    let shown = pinned.and_then(|()| take_away(folder)).and_then(|()| {
        devices.iter().try_for_each(|device| {
            fs::rename(aside(folder, device), folder.join(prompt_pin(&device.name)))
                .map_err(system("showing the pin of a link"))
        })
    });
    if shown.is_err() {
        for device in devices {
            let _ = fs::remove_file(aside(folder, device));
        }
    }
    shown
}

fn aside(folder: &Path, device: &Device) -> PathBuf {
    folder.join(format!("new_{}", device.index))
}

fn take_away(folder: &Path) -> Result<(), InstallError> {
    let reading = "reading the folder of the pins";
    for entry in fs::read_dir(folder).map_err(system(reading))? {
        let path = entry.map_err(system(reading))?.path();
        if is_link(&path) {
            remove_pin(&path).map_err(system("removing the pin of a link"))?;
        }
    }
    Ok(())
}

fn attach(folder: &Path, devices: &[Device]) -> Result<Vec<TcxLink>, InstallError> {
    let object = load(folder).map_err(or_too_old)?;
    let program = object
        .progs()
        .find(|program| program.name() == "prompt")
        .ok_or_else(|| system("opening the program")(io::ErrorKind::InvalidData))?;
    devices.iter().map(|device| link(program.as_fd(), device).map_err(or_too_old)).collect()
}

/// With the kernel driver's own maps.
fn load(folder: &Path) -> Result<Object, InstallError> {
    let mut object =
        ObjectBuilder::default().open_memory(PROMPT).map_err(bpf("opening the program"))?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if ["controls", "prompted", "shared"].contains(&name.as_str()) {
            let pinned = open(folder, &name)?;
            map.reuse_fd(pinned.as_fd()).map_err(bpf("using the kernel driver's maps"))?;
        }
    }
    object.load().map_err(bpf("loading the program for prompt acknowledgments"))
}

fn link(program: BorrowedFd<'_>, device: &Device) -> Result<TcxLink, InstallError> {
    TcxLink::to_egress(program, device.index).map_err(|source| InstallError::Attach {
        device: device.name.clone(),
        hint: match source.raw_os_error() {
            Some(libc::EPERM) => " (needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)",
            Some(libc::EINVAL) => " (the kernel needs CONFIG_NET_XGRESS)",
            _ => "",
        },
        source,
    })
}

/// What an old kernel reports of it explains nothing. One that can, whatever its version, is not asked.
fn or_too_old(error: InstallError) -> InstallError {
    let release = facts::release();
    match facts::version(&release) {
        Some(version) if version < TCX => InstallError::NoTcx(release),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::layout::{CONTROL_BYTES, at};

    #[test]
    fn the_program_and_user_space_have_the_same_layout() {
        let object = ObjectBuilder::default().open_memory(PROMPT).unwrap();
        let size = |name: &str| {
            object.maps().find(|map| map.name() == name).unwrap().value_size() as usize
        };
        assert_eq!((size("controls"), size("shared")), (CONTROL_BYTES, at::END));
    }

    #[test]
    fn devices_are_found_once_and_others_are_named() {
        let names = ["lo", "cp_none", "lo", "", "a_name_longer_than_any"].map(str::to_owned);
        let (found, missing) = devices(&names).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "lo");
        assert_eq!(missing, ["cp_none", "", "a_name_longer_than_any"]);
    }
}
