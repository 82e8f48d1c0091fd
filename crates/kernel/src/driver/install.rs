//! The privileged step: loads the program, registers the congestion control, pins the maps.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, OpenObject};
use nix::unistd::{Gid, Group, chown};

use super::install_error::{bpf, system};
use super::installed::Installed;
use super::layout::{LAYOUT, MAGIC, NAME, NAME_BYTES, SLOTS, VERSION_BYTES, at};
use super::load::{CELLPACE, open_object, suffix};
use super::prompt;
use super::status::{installed, remove, remove_unpinned};
use crate::KernelError;
use crate::facts::{running_too_old, running_variant};
use crate::host::bpffs::{Installing, remove_unfinished_held};
use crate::host::btf::{CallbackVariant, btf_path};
use crate::host::pins::{is_link, pins, remove_pins, unfinished};

pub use super::install_error::InstallError;

/// Who may control sockets. Everybody may always select the congestion control, which without
/// control is as harmless as the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverAccess {
    /// Root alone.
    Root,
    /// Root and a group.
    Group(u32),
    /// Every user.
    Everyone,
}

/// What to install.
#[derive(Clone, Debug)]
pub struct InstallOptions {
    /// Name of the congestion control and of the folder with its pins, at most 15 letters, digits,
    /// `_` and `-`.
    pub name: String,
    /// Who may use it.
    pub access: DriverAccess,
    /// Bytes of each slot's ring buffer: a power of two, 64 KiB to 64 MiB.
    pub ring_bytes: u32,
    /// Devices of this network namespace whose receivers are asked for prompt acknowledgments.
    pub prompt_acks: Vec<String>,
    /// Leave out devices that are not there, instead of failing.
    pub skip_missing: bool,
}

impl Default for InstallOptions {
    fn default() -> Self {
        Self {
            name: NAME.to_owned(),
            access: DriverAccess::Root,
            ring_bytes: 1 << 20,
            prompt_acks: Vec::new(),
            skip_missing: false,
        }
    }
}

/// What an installation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallOutcome {
    /// The very same was there: only the rights and the devices for prompt acknowledgments were set.
    pub was_there: bool,
    /// The version that was there before, and sockets that stay with it and look after themselves.
    pub replaced: Option<(String, u64)>,
    /// Pins of an installation that was killed were removed.
    pub was_unfinished: bool,
    /// Devices that are not there and were left out.
    pub missing: Vec<String>,
}

/// Number of a group.
///
/// # Errors
/// When there is none of this name.
pub fn group(name: &str) -> Result<u32, InstallError> {
    let found = Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
    found.or_else(|| name.parse().ok()).ok_or_else(|| InstallError::Group(name.to_owned()))
}

/// Installs the kernel driver. Once it is there, the same again only sets who may use it, and the
/// devices for prompt acknowledgments; another version, or another size of the ring buffers, takes
/// the place of the one before.
///
/// # Errors
/// When the kernel, or our privilege, does not allow it. Nothing is left behind then.
pub fn install(options: &InstallOptions) -> Result<InstallOutcome, InstallError> {
    check(options)?;
    if let Some(obstacle) = running_too_old() {
        return Err(InstallError::TooOld(obstacle));
    }
    let path = btf_path();
    let btf = running_variant(&path);
    let variant = btf.map_err(|source| InstallError::NoBtf { path, source })??;
    let (devices, missing) = prompt::devices(&options.prompt_acks)?;
    if let Some(name) = missing.first().filter(|_| !options.skip_missing) {
        return Err(InstallError::Device(name.clone()));
    }
    let _installing = Installing::start()?;
    let was_unfinished = remove_unfinished_held(&options.name)?;
    let mut done = InstallOutcome { was_unfinished, missing, ..InstallOutcome::default() };
    let folder = pins(&options.name);
    match installed(&options.name) {
        Ok(there) if there.is_same(options) && folder.join("prompted").exists() => {
            done.was_there = true;
        }
        Ok(there) => {
            let sockets = remove(&options.name)?.sockets.unwrap_or_default();
            done.replaced = Some((there.version, sockets));
        }
        Err(KernelError::PinsGone) => {
            let (there, removed) = remove_unpinned(&options.name)?;
            done.replaced = Some((there.version, removed.sockets.unwrap_or_default()));
        }
        Err(KernelError::NotInstalled) => remove_rest(&options.name)?,
        Err(error) => return Err(error.into()),
    }
    if !done.was_there {
        load(options, variant, &folder)?;
    }
    if let Err(error) = prompt::set(&folder, &devices) {
        if !done.was_there {
            let _ = remove(&options.name);
        }
        return Err(error);
    }
    permit(&folder, options.access)?;
    Ok(done)
}

/// Pins of one that was removed where they were not to be seen would be in the way.
fn remove_rest(name: &str) -> Result<(), KernelError> {
    match remove(name) {
        Ok(_) | Err(KernelError::NotInstalled) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Installed {
    fn is_same(&self, options: &InstallOptions) -> bool {
        self.layout == LAYOUT && self.version == VERSION && self.ring_bytes == options.ring_bytes
    }
}

/// What the shared page says about who installed it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn check(options: &InstallOptions) -> Result<(), InstallError> {
    let InstallOptions { name, ring_bytes, .. } = options;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() >= NAME_BYTES || !name.chars().all(fits) {
        return Err(InstallError::Name(name.clone()));
    }
    if !ring_bytes.is_power_of_two() || !(1 << 16..=1 << 26).contains(ring_bytes) {
        return Err(InstallError::Ring(*ring_bytes));
    }
    Ok(())
}

fn load(
    options: &InstallOptions,
    variant: CallbackVariant,
    folder: &Path,
) -> Result<(), InstallError> {
    let mut object =
        open_object(CELLPACE, variant, &options.name).map_err(bpf("opening the program"))?;
    describe(&mut object, options)?;
    let mut object = object.load().map_err(bpf("loading the program"))?;
    // Pinned where nobody looks, and shown when it is whole.
    let hidden = unfinished(&options.name);
    fs::create_dir(&hidden).map_err(system("making the folder for the pins"))?;
    let result = permit_folder(&hidden, 0o700)
        .and_then(|()| pin(&mut object, &hidden, options))
        .and_then(|()| register(&mut object, variant, &hidden, folder));
    if result.is_err() {
        let _ = remove_pins(&hidden);
    }
    result
}

/// Fills in the shared page's head.
fn describe(object: &mut OpenObject, options: &InstallOptions) -> Result<(), InstallError> {
    let missing = || system("opening the program")(io::ErrorKind::InvalidData);
    let mut shared = object
        .maps_mut()
        .find(|map| map.name().to_string_lossy().ends_with(".shared"))
        .ok_or_else(missing)?;
    let page = shared.initial_value_mut().ok_or_else(missing)?;
    if page.len() < at::END {
        return Err(missing());
    }
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(at::MAGIC, &MAGIC.to_ne_bytes());
    put(at::LAYOUT, &LAYOUT.to_ne_bytes());
    put(at::NAME, options.name.as_bytes());
    put(at::VERSION, &VERSION.as_bytes()[..VERSION.len().min(VERSION_BYTES - 1)]);
    put(at::SLOTS, &(SLOTS as u32).to_ne_bytes());
    put(at::RING_BYTES, &options.ring_bytes.to_ne_bytes());
    put(at::MAX_CONTROLS, &65_536u32.to_ne_bytes());
    Ok(())
}

/// Makes the rings and pins what clients open.
fn pin(object: &mut Object, folder: &Path, options: &InstallOptions) -> Result<(), InstallError> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "controls" | "prompted" => {
                map.pin(folder.join(&name)).map_err(bpf("pinning a map"))?;
            }
            "rings" => {
                for slot in 0..SLOTS {
                    let ring = ring(options.ring_bytes)?;
                    put_ring(&map, slot, &ring)?;
                    pin_handle(ring, &folder.join(format!("ring{slot:02}")))?;
                }
            }
            name if name.ends_with(".shared") => {
                map.pin(folder.join("shared")).map_err(bpf("pinning a map"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn ring(bytes: u32) -> Result<MapHandle, InstallError> {
    let options =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as _, ..Default::default() };
    MapHandle::create(MapType::RingBuf, Some(OsStr::new("cellpace_ring")), 0, 0, bytes, &options)
        .map_err(bpf("making a ring buffer"))
}

fn put_ring(rings: &impl MapCore, slot: usize, ring: &MapHandle) -> Result<(), InstallError> {
    let fd = ring.as_fd().as_raw_fd().to_ne_bytes();
    rings
        .update(&(slot as u32).to_ne_bytes(), &fd, MapFlags::ANY)
        .map_err(bpf("handing over a ring buffer"))
}

fn pin_handle(mut map: MapHandle, path: &Path) -> Result<(), InstallError> {
    map.pin(path).map_err(bpf("pinning a map"))
}

/// From here the congestion control can be selected. The kernel keeps it until it is removed.
fn register(
    object: &mut Object,
    variant: CallbackVariant,
    hidden: &Path,
    folder: &Path,
) -> Result<(), InstallError> {
    let mut maps = object.maps_mut();
    let mut map = maps
        .find(|map| map.name().to_string_lossy().ends_with(suffix(variant)))
        .ok_or_else(|| system("opening the program")(io::ErrorKind::InvalidData))?;
    map.pin(hidden.join("cc")).map_err(bpf("pinning a map"))?;
    let mut link = map.attach_struct_ops().map_err(bpf("registering the congestion control"))?;
    // When it fails, dropping the link unregisters again.
    fs::rename(hidden, folder).map_err(system("showing the pins"))?;
    link.disconnect();
    Ok(())
}

/// Sets who may open the pins. `cc`, by which it is removed, and what is for prompt acknowledgments
/// stay with root.
fn permit(folder: &Path, access: DriverAccess) -> Result<(), InstallError> {
    let (of_folder, of_pins, gid) = match access {
        DriverAccess::Root => (0o700, 0o600, 0),
        DriverAccess::Group(gid) => (0o750, 0o660, gid),
        DriverAccess::Everyone => (0o755, 0o666, 0),
    };
    // Closed first, so that nobody slips in between.
    permit_folder(folder, 0o700)?;
    let entries = fs::read_dir(folder).map_err(system("reading the folder of the pins"))?;
    for entry in entries {
        let entry = entry.map_err(system("reading the folder of the pins"))?;
        let is_ours_alone = ["cc", "prompted"].iter().any(|pin| entry.file_name() == *pin)
            || is_link(&entry.path());
        set(&entry.path(), if is_ours_alone { 0o600 } else { of_pins }, gid)?;
    }
    set(folder, of_folder, gid)
}

fn set(path: &Path, mode: u32, gid: u32) -> Result<(), InstallError> {
    chown(path, None, Some(Gid::from_raw(gid))).map_err(system("giving the pins to the group"))?;
    permit_folder(path, mode)
}

fn permit_folder(path: &Path, mode: u32) -> Result<(), InstallError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(system("setting who may open the pins"))
}
