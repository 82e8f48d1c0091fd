//! A congestion control that needs no process, as an object of BPF: loaded, registered, pinned, replaced.

#![allow(unsafe_code, reason = "a call of libbpf that libbpf-rs does not wrap")]

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::{fs, io};

use libbpf_rs::{
    ErrorKind, Link, MapCore, MapHandle, MapMut, MapType, Object, OpenObject, libbpf_sys,
};
use thiserror::Error;

use crate::KernelError;
use crate::driver::install_error::InstallError;
use crate::driver::load::{open_object, suffix};
use crate::facts::{NO_LINKS, btf_path, running_links, running_variant};
use crate::host::bpffs::Installing;
use crate::host::btf::{BtfError, CallbackVariant};
use crate::host::pins::{holds_congestion_control, pins};

/// Bytes of a name of a congestion control, with the zero at its end.
pub(crate) const NAME_BYTES: usize = 16;

/// Why a congestion control that needs no process cannot be installed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The table is too large for a map.
    #[error("the table has {words} words; the kernel takes {most}: train with wider steps")]
    TooLarge {
        /// How many it has.
        words: usize,
        /// How many it may have.
        most: usize,
    },
    /// The kernel cannot hold the name.
    #[error("`{0}`: a congestion control's name has 1 to 15 bytes")]
    Name(String),
    /// The program is not the one that this loader was written for.
    #[error("the BPF object has no {0}: build cellpace again")]
    Missing(&'static str),
    /// The kernel refused.
    #[error(
        "{step}: {source} (it needs BTF, CAP_BPF, CAP_PERFMON, and a kernel that permits such a program)"
    )]
    Bpf {
        /// What was being done.
        step: &'static str,
        /// Its words.
        source: libbpf_rs::Error,
    },
    /// The kernel does not export its types.
    #[error("this kernel has no BTF ({}: {source}); it needs CONFIG_DEBUG_INFO_BTF", .path.display())]
    NoBtf {
        /// Where we looked.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel has no congestion controls in BPF, or other ones.
    #[error("this kernel takes no congestion control of ours: {0}")]
    Kernel(#[from] BtfError),
    /// The kernel cannot replace a congestion control that is in use.
    #[error("{NO_LINKS}")]
    NoLinks,
    /// It would be the default of a network namespace in which it may not.
    #[error(
        "in a network namespace other than the first the default is for everyone: add --everyone"
    )]
    ForEveryone,
    /// bpffs cannot be mounted.
    #[error(transparent)]
    Bpffs(#[from] InstallError),
    /// The name is taken.
    #[error("a congestion control `{0}` is registered, but not by cellpace; remove it first")]
    Foreign(String),
    /// What is registered cannot be looked at or removed.
    #[error(transparent)]
    Driver(#[from] KernelError),
    /// A file of the BPF file system.
    #[error("{}: {source}", .path.display())]
    Pin {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

pub(crate) fn bpf(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> NativeError {
    move |source| NativeError::Bpf { step, source }
}

/// What an installation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// There was none.
    New,
    /// It took the place of another, whose connections keep to it.
    Replaced,
    /// The program was there already, and works with other parameters now, also for open connections.
    Changed,
}

/// A congestion control in the kernel's memory, which nothing can select yet.
pub(crate) struct CongestionControl {
    pub(crate) object: Object,
    variant: CallbackVariant,
    name: String,
    has_links: bool,
}

impl CongestionControl {
    /// Loads an object with one struct_ops map per signature of `cong_control`. `prepare` sizes maps
    /// and writes settings before.
    pub(crate) fn load(
        bytes: &[u8],
        name: &str,
        everyone: bool,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), NativeError>,
    ) -> Result<Self, NativeError> {
        if !(1..NAME_BYTES).contains(&name.len()) {
            return Err(NativeError::Name(name.to_owned()));
        }
        let path = btf_path();
        let has_links = running_links(&path);
        let variant =
            running_variant(&path).map_err(|source| NativeError::NoBtf { path, source })??;
        let mut object = open_object(bytes, variant, name).map_err(bpf("reading the program"))?;
        for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
            if !map.name().to_string_lossy().ends_with(suffix(variant)) {
                continue;
            }
            if !has_links {
                // Registered as before Linux 6.4, by the map itself.
                map.set_map_flags(0).map_err(bpf("reading the program"))?;
            }
            let value = map.initial_value_mut().ok_or(NativeError::Missing("name"))?;
            fill_flags(value, everyone).ok_or(NativeError::Missing("name"))?;
        }
        prepare(&mut object)?;
        let object = object.load().map_err(bpf("loading the program"))?;
        Ok(Self { object, variant, name: name.to_owned(), has_links })
    }

    /// Whether the kernel can put it in the place of another in one step.
    pub(crate) fn has_links(&self) -> bool {
        self.has_links
    }

    /// One of its maps, by the end of its name.
    pub(crate) fn map(&mut self, name: &'static str) -> Result<MapHandle, NativeError> {
        let is_it = |map: &MapMut<'_>| map.name().to_string_lossy().ends_with(name);
        let map = self.object.maps_mut().find(is_it).ok_or(NativeError::Missing(name))?;
        MapHandle::try_from(&map).map_err(bpf("duplicating a descriptor"))
    }

    /// Registers it and pins it, in the place of what `remove` knows as ours.
    pub(crate) fn install(
        mut self,
        remove: impl FnOnce(&str) -> Result<bool, KernelError>,
    ) -> Result<Done, NativeError> {
        let _installing = Installing::start()?;
        let pin = pins(&self.name);
        let held =
            holds_congestion_control(&pin).map_err(KernelError::system("opening the pin"))?;
        if held == Some(false) {
            return Err(KernelError::ForeignPin(pin).into());
        }
        if held.is_some() && self.has_links {
            return self.replace(&pin).map(|()| Done::Replaced);
        }
        let done = if remove(&self.name)? { Done::Replaced } else { Done::New };
        let mut link = self.register()?;
        link.pin(&pin).map_err(bpf("pinning"))?;
        if !self.has_links {
            // The end of what is no link for the kernel would unregister it.
            link.disconnect();
        }
        Ok(done)
    }

    /// Makes it a congestion control for as long as the link lives or is pinned.
    pub(crate) fn register(&mut self) -> Result<Link, NativeError> {
        self.attach().map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => NativeError::Foreign(self.name.clone()),
            _ => NativeError::Bpf { step: "registering", source },
        })
    }

    fn attach(&mut self) -> libbpf_rs::Result<Link> {
        let wanted = suffix(self.variant);
        let map = self.object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(wanted));
        map.ok_or_else(|| libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound)))?
            .attach_struct_ops()
    }

    /// Takes the place of the congestion control whose link is pinned.
    fn replace(mut self, pin: &Path) -> Result<(), NativeError> {
        let link = Link::open(pin).map_err(bpf("opening what is installed"))?;
        // Hands the callbacks to the kernel and then fails, since the name is taken; from there the
        // link goes on. If it does not fail what is pinned is not registered, or under another name.
        match self.attach() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(NativeError::Bpf { step: "registering", source }),
            Ok(mut new) => {
                let pin_error = |source| NativeError::Pin { path: pin.to_owned(), source };
                fs::remove_file(pin).map_err(pin_error)?;
                return new.pin(pin).map_err(bpf("pinning"));
            }
        }
        let map = self.map(suffix(self.variant))?;
        let (link, map) = (link.as_fd().as_raw_fd(), map.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open, and null stands for no options.
        let code = unsafe { libbpf_sys::bpf_link_update(link, map, std::ptr::null()) };
        if code == 0 {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(-code);
        Err(NativeError::Bpf { step: "replacing what is installed", source: source.into() })
    }
}

/// After the name in `struct tcp_congestion_ops` of bpf/kernel.h.
fn fill_flags(value: &mut [u8], everyone: bool) -> Option<()> {
    /// `TCP_CONG_NON_RESTRICTED`
    const EVERYONE: u32 = 1;
    let flags = if everyone { EVERYONE } else { 0 };
    value.get_mut(NAME_BYTES..NAME_BYTES + 4)?.copy_from_slice(&flags.to_ne_bytes());
    Some(())
}
