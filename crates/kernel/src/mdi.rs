//! MDI in the kernel: a congestion control that needs no process, with the table of one settings.
//!
//! A table never changes once it is loaded. Another model is another BPF object, which takes the
//! place of the one before in one step of the kernel's own (an update of its link): new connections
//! walk over the new table, and those that run keep to theirs until they end.

#![allow(unsafe_code, reason = "a call of libbpf that libbpf-rs does not wrap")]

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::{fs, io};

use cellpace_mdi::{Flat, VectorEvent, VectorStep};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapMut, Object, libbpf_sys};
use thiserror::Error;

use crate::KernelError;
use crate::driver::install_error::InstallError;
use crate::driver::load::{open_object, suffix};
use crate::facts::{NO_LINKS, btf_path, running_links, running_variant};
use crate::host::bpffs::Installing;
use crate::host::btf::{BtfError, CallbackVariant};
use crate::host::pins::pins;
use crate::table::{self, TableOrigin, at, put_text};

/// The program as clang left it.
const MDI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mdi.bpf.o"));

pub use crate::table::NAME;

/// Words of a table at most: `WALK_MAX_WORDS` of bpf/walk.h.
const MAX_WORDS: usize = 1 << 24;

/// Bytes of a name of a congestion control, with the zero at its end.
const NAME_BYTES: usize = 16;

/// Words written per system call.
const BATCH: usize = 1 << 16;

/// A congestion control to be.
#[derive(Debug, Clone)]
pub struct TableInstallation {
    /// Table and rules.
    pub flat: Flat,
    /// Seed of the walks: socket number n of the congestion control has one of its own. 0: random.
    pub seed: u64,
    /// Whether a slow start like Verus' own goes in front of the walk.
    pub slow_start: bool,
    /// Whether users without privilege may select it (setsockopt).
    pub everyone: bool,
    /// Its name, below 16 bytes; [`NAME`] but in tests.
    pub name: String,
    /// Where the table comes from, for `cellpace kernel status`.
    pub origin: TableOrigin,
}

impl TableInstallation {
    /// A table with random seeds, without slow start, for privileged users.
    pub fn new(flat: Flat) -> Self {
        Self {
            flat,
            seed: 0,
            slow_start: false,
            everyone: false,
            name: NAME.to_owned(),
            origin: TableOrigin::default(),
        }
    }
}

/// Why there is no MDI in the kernel.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MdiError {
    /// The table is too large for a map.
    #[error("the table has {words} words; the kernel takes {MAX_WORDS}: train with wider steps")]
    TooLarge {
        /// How many it has.
        words: usize,
    },
    /// The kernel cannot hold the name.
    #[error("`{0}`: a congestion control's name has 1 to 15 bytes")]
    Name(String),
    /// The program is not the one that this loader was written for.
    #[error("the BPF object has no {0}: build cellpace again")]
    Missing(&'static str),
    /// The kernel refused.
    #[error("{step}: {source} (MDI in the kernel needs Linux 6.4, BTF, CAP_BPF and CAP_PERFMON)")]
    Bpf {
        /// What was being done.
        step: &'static str,
        /// Its words.
        source: libbpf_rs::Error,
    },
    /// The kernel does not export its types.
    #[error("this kernel has no BTF ({}: {source}); MDI in the kernel needs CONFIG_DEBUG_INFO_BTF", .path.display())]
    NoBtf {
        /// Where we looked.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel has no congestion controls in BPF, or other ones.
    #[error("this kernel cannot run MDI: {0}")]
    Kernel(#[from] BtfError),
    /// The kernel cannot replace a congestion control that is in use.
    #[error("{NO_LINKS}")]
    NoLinks,
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

fn bpf(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> MdiError {
    move |source| MdiError::Bpf { step, source }
}

/// What an installation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// There was none.
    New,
    /// It took the place of another, whose connections keep to their table.
    Replaced,
}

/// Registers the congestion control and pins it in the BPF file system, which is mounted where it is
/// missing, so that it stays when this process ends. One that is pinned under this name already is
/// replaced in one step; one of ours whose pin is gone is removed first.
///
/// # Errors
/// When the kernel permits no BPF or lacks what it needs, or the name is taken by something else.
pub fn install(settings: &TableInstallation) -> Result<Done, MdiError> {
    let loaded = Loaded::load(settings, false)?;
    let _installing = Installing::start()?;
    let pin = pins(&settings.name);
    if pin.exists() {
        return loaded.replace(&pin).map(|()| Done::Replaced);
    }
    let done = if table::remove(&settings.name)? { Done::Replaced } else { Done::New };
    let mut link = loaded.register()?;
    link.pin(&pin).map_err(bpf("pinning"))?;
    Ok(done)
}

/// Removes what [`install`] registered: [`table::remove`].
///
/// # Errors
/// See there.
pub fn remove(name: &str) -> Result<bool, MdiError> {
    Ok(table::remove(name)?)
}

/// Program and table in the kernel, not yet a congestion control.
pub struct Loaded {
    object: Object,
    variant: CallbackVariant,
    name: String,
}

impl Loaded {
    /// Loads program and table; `tests`: with the program that [`walk`](Self::walk) runs.
    ///
    /// # Errors
    /// See [`install`].
    pub fn load(settings: &TableInstallation, tests: bool) -> Result<Self, MdiError> {
        if !(1..NAME_BYTES).contains(&settings.name.len()) {
            return Err(MdiError::Name(settings.name.clone()));
        }
        let words = words_of(&settings.flat)?;
        let path = btf_path();
        let has_links = running_links(&path);
        let variant =
            running_variant(&path).map_err(|source| MdiError::NoBtf { path, source })??;
        if !has_links {
            return Err(MdiError::NoLinks);
        }
        Self::load_variant(settings, &words, tests, variant)
    }

    fn load_variant(
        settings: &TableInstallation,
        words: &[u8],
        tests: bool,
        variant: CallbackVariant,
    ) -> Result<Self, MdiError> {
        let mut object =
            open_object(MDI, variant, &settings.name).map_err(bpf("reading the program"))?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match name.as_str() {
                "table" => map.set_max_entries((words.len() / 4) as u32),
                "steps" => map.set_autocreate(tests),
                _ => Ok(()),
            }
            .map_err(bpf("sizing the maps"))?;
            if name.ends_with(".rodata.model") {
                let value = map.initial_value_mut().ok_or(MdiError::Missing("settings"))?;
                fill_model(value, settings, words).ok_or(MdiError::Missing("settings"))?;
            }
            if name.ends_with(suffix(variant)) {
                let value = map.initial_value_mut().ok_or(MdiError::Missing("name"))?;
                fill_flags(value, settings).ok_or(MdiError::Missing("name"))?;
            }
        }
        for mut program in object.progs_mut() {
            if program.name() == "mdi_test" {
                program.set_autoload(tests);
            }
        }
        let mut object = object.load().map_err(bpf("loading the program"))?;
        write_table(&map_named(&mut object, "table")?, words)?;
        Ok(Self { object, variant, name: settings.name.clone() })
    }

    /// Makes it a congestion control for as long as the link lives or is pinned.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn register(mut self) -> Result<Link, MdiError> {
        let name = self.name.clone();
        self.attach().map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => MdiError::Foreign(name),
            _ => MdiError::Bpf { step: "registering", source },
        })
    }

    fn attach(&mut self) -> libbpf_rs::Result<Link> {
        let wanted = suffix(self.variant);
        let map = self.object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(wanted));
        map.ok_or_else(|| libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound)))?
            .attach_struct_ops()
    }

    /// Takes the place of the congestion control whose link is pinned.
    fn replace(mut self, pin: &Path) -> Result<(), MdiError> {
        let link = Link::open(pin).map_err(bpf("opening what is installed"))?;
        // Hands the callbacks to the kernel and then fails, since the name is taken; from there the
        // link goes on. If it does not fail what is pinned is not registered, or under another name.
        match self.attach() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(MdiError::Bpf { step: "registering", source }),
            Ok(mut new) => {
                let pin_error = |source| MdiError::Pin { path: pin.to_owned(), source };
                fs::remove_file(pin).map_err(pin_error)?;
                return new.pin(pin).map_err(bpf("pinning"));
            }
        }
        let map = map_named(&mut self.object, suffix(self.variant))?;
        let (link, map) = (link.as_fd().as_raw_fd(), map.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open, and null stands for no options.
        let code = unsafe { libbpf_sys::bpf_link_update(link, map, std::ptr::null()) };
        if code == 0 {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(-code);
        Err(MdiError::Bpf { step: "replacing what is installed", source: source.into() })
    }

    /// The walk of the kernel through a test vector's events: window and credit after each. Needs
    /// `tests` of [`load`](Self::load); a map takes at most 4096 events at a time.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn walk(&mut self, seed: u64, steps: &[VectorStep]) -> Result<Vec<[u32; 2]>, MdiError> {
        let doing = "walking";
        let map = map_named(&mut self.object, "steps")?;
        for (number, step) in (0_u32..).zip(steps) {
            let bytes: Vec<u8> = words_of_event(&step.event).concat();
            map.update(&number.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(bpf(doing))?;
        }
        let mut args = seed.to_ne_bytes().to_vec();
        args.extend((steps.len() as u64).to_ne_bytes());
        let program = self.object.progs_mut().find(|program| program.name() == "mdi_test");
        let program = program.ok_or(MdiError::Missing("program for tests"))?;
        let input = libbpf_rs::ProgramInput { context_in: Some(&mut args), ..Default::default() };
        program.test_run(input).map_err(bpf(doing))?;
        let outcome = |number: usize| {
            let key = (number as u32).to_ne_bytes();
            let value = map.lookup(&key, MapFlags::ANY).map_err(bpf(doing))?;
            let word = |at: usize| value.as_ref()?.get(at..at + 4)?.try_into().ok();
            let words = word(24).zip(word(28)).ok_or(MdiError::Missing("step"))?;
            Ok([words.0, words.1].map(u32::from_ne_bytes))
        };
        (0..steps.len()).map(outcome).collect()
    }
}

/// `struct step` of bpf/mdi.bpf.c, before the walk.
fn words_of_event(event: &VectorEvent) -> [[u8; 4]; 8] {
    let words = match *event {
        VectorEvent::Epoch { delay_us, acked, sent, in_flight, epochs } => {
            [delay_us, acked.into(), 0, sent, in_flight, epochs, 0, 0]
        }
        VectorEvent::Set { window, forget } => [window, forget.into(), 1, 0, 0, 0, 0, 0],
    };
    words.map(u32::to_ne_bytes)
}

fn map_named(object: &mut Object, name: &'static str) -> Result<MapHandle, MdiError> {
    let is_it = |map: &MapMut<'_>| map.name().to_string_lossy().ends_with(name);
    let map = object.maps_mut().find(is_it).ok_or(MdiError::Missing(name))?;
    MapHandle::try_from(&map).map_err(bpf("duplicating a descriptor"))
}

/// The flat form without its checksum.
fn words_of(flat: &Flat) -> Result<Vec<u8>, MdiError> {
    let mut bytes = flat.to_bytes();
    bytes.truncate(bytes.len().saturating_sub(4));
    match bytes.len() / 4 {
        words if words > MAX_WORDS => Err(MdiError::TooLarge { words }),
        // The kernel reads words as the machine has them.
        _ => Ok(bytes.chunks_exact(4).flat_map(native).collect()),
    }
}

fn native(word: &[u8]) -> [u8; 4] {
    u32::from_le_bytes([word[0], word[1], word[2], word[3]]).to_ne_bytes()
}

/// `model` of bpf/mdi.bpf.c.
fn fill_model(value: &mut [u8], settings: &TableInstallation, words: &[u8]) -> Option<()> {
    value.get_mut(at::HEADER)?.copy_from_slice(words.get(at::HEADER)?);
    value.get_mut(at::SEED)?.copy_from_slice(&settings.seed.to_ne_bytes());
    let slow_start = u32::from(settings.slow_start);
    value.get_mut(at::SLOW_START)?.copy_from_slice(&slow_start.to_ne_bytes());
    value.get_mut(at::SHA256)?.copy_from_slice(&settings.origin.sha256);
    put_text(value.get_mut(at::TEACHER)?, &settings.origin.teacher);
    put_text(value.get_mut(at::CONTROLLER)?, &settings.origin.controller);
    Some(())
}

/// After the name in `struct tcp_congestion_ops` of bpf/kernel.h.
fn fill_flags(value: &mut [u8], settings: &TableInstallation) -> Option<()> {
    /// `TCP_CONG_NON_RESTRICTED`
    const EVERYONE: u32 = 1;
    let flags = if settings.everyone { EVERYONE } else { 0 };
    value.get_mut(NAME_BYTES..NAME_BYTES + 4)?.copy_from_slice(&flags.to_ne_bytes());
    Some(())
}

/// Nobody can change the table after this.
fn write_table(table: &MapHandle, words: &[u8]) -> Result<(), MdiError> {
    let step = "writing the table";
    let keys: Vec<u8> = (0..words.len() as u32 / 4).flat_map(u32::to_ne_bytes).collect();
    for (keys, values) in keys.chunks(4 * BATCH).zip(words.chunks(4 * BATCH)) {
        let count = keys.len() as u32 / 4;
        table.update_batch(keys, values, count, MapFlags::ANY, MapFlags::ANY).map_err(bpf(step))?;
    }
    table.freeze().map_err(bpf(step))
}
