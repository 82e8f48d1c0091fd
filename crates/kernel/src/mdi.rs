//! MDI in the kernel: a congestion control that needs no process, with the table of one settings.
//!
//! A table never changes once it is loaded. Another model is another BPF object, which takes the
//! place of the one before in one step of the kernel's own (an update of its link): new connections
//! walk over the new table, and those that run keep to theirs until they end.

use cellpace_mdi::{Flat, VectorEvent, VectorStep};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject};

use crate::native::object::{CongestionControl, bpf};
use crate::table::{self, TableOrigin, at, put_text};

pub use crate::native::object::{Done, NativeError};

/// The program as clang left it.
const MDI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mdi.bpf.o"));

pub use crate::table::NAME;

/// Words of a table at most: `WALK_MAX_WORDS` of bpf/walk.h.
const MAX_WORDS: usize = 1 << 24;

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

/// Registers the congestion control and pins it in the BPF file system, which is mounted where it is
/// missing, so that it stays when this process ends. One that is pinned under this name already is
/// replaced in one step; one of ours whose pin is gone is removed first.
///
/// # Errors
/// When the kernel permits no BPF or lacks what it needs, or the name is taken by something else.
pub fn install(settings: &TableInstallation) -> Result<Done, NativeError> {
    Loaded::load(settings, false)?.0.install(table::remove)
}

/// Program and table in the kernel, not yet a congestion control.
pub struct Loaded(CongestionControl);

impl Loaded {
    /// Loads program and table; `tests`: with the program that [`walk`](Self::walk) runs.
    ///
    /// # Errors
    /// See [`install`].
    pub fn load(settings: &TableInstallation, tests: bool) -> Result<Self, NativeError> {
        let words = words_of(&settings.flat)?;
        let TableInstallation { name, everyone, .. } = settings;
        let mut loaded = CongestionControl::load(MDI, name, *everyone, |object| {
            prepare(object, settings, &words, tests)
        })?;
        if !loaded.has_links() {
            return Err(NativeError::NoLinks);
        }
        write_table(&loaded.map("table")?, &words)?;
        Ok(Self(loaded))
    }

    /// Makes it a congestion control for as long as the link lives or is pinned.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn register(mut self) -> Result<Link, NativeError> {
        self.0.register()
    }

    /// The walk of the kernel through a test vector's events: window and credit after each. Needs
    /// `tests` of [`load`](Self::load); a map takes at most 4096 events at a time.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn walk(&mut self, seed: u64, steps: &[VectorStep]) -> Result<Vec<[u32; 2]>, NativeError> {
        let doing = "walking";
        let map = self.0.map("steps")?;
        for (number, step) in (0_u32..).zip(steps) {
            let bytes: Vec<u8> = words_of_event(&step.event).concat();
            map.update(&number.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(bpf(doing))?;
        }
        let mut args = seed.to_ne_bytes().to_vec();
        args.extend((steps.len() as u64).to_ne_bytes());
        let program = self.0.object.progs_mut().find(|program| program.name() == "mdi_test");
        let program = program.ok_or(NativeError::Missing("program for tests"))?;
        let input = libbpf_rs::ProgramInput { context_in: Some(&mut args), ..Default::default() };
        program.test_run(input).map_err(bpf(doing))?;
        let outcome = |number: usize| {
            let key = (number as u32).to_ne_bytes();
            let value = map.lookup(&key, MapFlags::ANY).map_err(bpf(doing))?;
            let word = |at: usize| value.as_ref()?.get(at..at + 4)?.try_into().ok();
            let words = word(24).zip(word(28)).ok_or(NativeError::Missing("step"))?;
            Ok([words.0, words.1].map(u32::from_ne_bytes))
        };
        (0..steps.len()).map(outcome).collect()
    }
}

/// Sizes the maps, and writes the settings into the object.
fn prepare(
    object: &mut OpenObject,
    settings: &TableInstallation,
    words: &[u8],
    tests: bool,
) -> Result<(), NativeError> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "table" => map.set_max_entries((words.len() / 4) as u32),
            "steps" => map.set_autocreate(tests),
            _ => Ok(()),
        }
        .map_err(bpf("sizing the maps"))?;
        if name.ends_with(".rodata.model") {
            let value = map.initial_value_mut().ok_or(NativeError::Missing("settings"))?;
            fill_model(value, settings, words).ok_or(NativeError::Missing("settings"))?;
        }
    }
    for mut program in object.progs_mut() {
        if program.name() == "mdi_test" {
            program.set_autoload(tests);
        }
    }
    Ok(())
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

/// The flat form without its checksum.
fn words_of(flat: &Flat) -> Result<Vec<u8>, NativeError> {
    let mut bytes = flat.to_bytes();
    bytes.truncate(bytes.len().saturating_sub(4));
    match bytes.len() / 4 {
        words if words > MAX_WORDS => Err(NativeError::TooLarge { words, most: MAX_WORDS }),
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

/// Nobody can change the table after this.
fn write_table(table: &MapHandle, words: &[u8]) -> Result<(), NativeError> {
    let step = "writing the table";
    let keys: Vec<u8> = (0..words.len() as u32 / 4).flat_map(u32::to_ne_bytes).collect();
    for (keys, values) in keys.chunks(4 * BATCH).zip(words.chunks(4 * BATCH)) {
        let count = keys.len() as u32 / 4;
        table.update_batch(keys, values, count, MapFlags::ANY, MapFlags::ANY).map_err(bpf(step))?;
    }
    table.freeze().map_err(bpf(step))
}
