//! Installs a controller that runs in the kernel by itself, or changes its parameters.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use libbpf_rs::{MapCore, MapFlags};

use super::about::{self, InstalledNative, MAGIC, NativeController, at};
use super::object::{CongestionControl, Done, NativeError, bpf};
use crate::KernelError;
use crate::host::bpffs::Installing;
use crate::table::put_text;

const PACE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pace.bpf.o"));
const COPA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/copa.bpf.o"));

/// A congestion control to be.
#[derive(Debug, Clone)]
pub struct NativeInstallation {
    /// Which one.
    pub native: NativeController,
    /// The parameters of its law: `struct NAME_settings` of bpf/NAME.h.
    pub words: Vec<u64>,
    /// The controller string, for `cellpace kernel status`.
    pub controller: String,
    /// Whether users without privilege may select it (setsockopt).
    pub everyone: bool,
    /// Whether it becomes the default of this network namespace.
    pub default: bool,
    /// Its name, below 16 bytes; [`NativeController::congestion_control`] but in tests.
    pub name: String,
}

impl NativeInstallation {
    /// With the parameters of the law, for privileged users, not the default.
    pub fn new(native: NativeController, words: Vec<u64>) -> Self {
        Self {
            native,
            words,
            controller: native.controller().to_owned(),
            everyone: false,
            default: false,
            name: native.congestion_control().to_owned(),
        }
    }
}

/// The program of a controller, as clang left it.
pub(crate) fn object_of(native: NativeController) -> &'static [u8] {
    match native {
        NativeController::Pace => PACE,
        NativeController::Copa => COPA,
    }
}

/// Which program it is.
pub(crate) fn program_hash(native: NativeController) -> u64 {
    let mut hasher = DefaultHasher::new();
    object_of(native).hash(&mut hasher);
    hasher.finish()
}

/// Registers the congestion control and pins it, so that it stays when this process ends. Where the same
/// program is installed, its parameters change, also for open connections. Another program takes the place of
/// the one before in one step where the kernel can (Linux 6.4), and open connections keep to theirs.
///
/// # Errors
/// When the kernel permits no BPF or lacks what it needs, or the name is taken by something else. Then
/// nothing has changed.
pub fn install(settings: &NativeInstallation) -> Result<Done, NativeError> {
    let NativeInstallation { name, everyone, .. } = settings;
    let known = about::installed(name)?;
    let is_default = about::default_here().as_ref() == Some(name);
    if (settings.default || is_default) && !everyone && !about::is_first_namespace() {
        return Err(NativeError::ForEveryone);
    }
    let about = About::of(settings, known.as_ref());
    let done = match &known {
        Some(known) if about.is_same(known, *everyone) => change(settings, &about)?,
        _ => load(settings, &about)?,
    };
    if !settings.default && !is_default {
        return Ok(done);
    }
    if let Err(error) = become_default(settings, about, is_default) {
        if done == Done::New {
            about::remove(name)?;
        }
        return Err(error);
    }
    Ok(done)
}

/// Makes it the default of this network namespace, and keeps which one was that before.
fn become_default(
    settings: &NativeInstallation,
    mut about: About,
    is_default: bool,
) -> Result<(), NativeError> {
    if let Some(default) = about::default_here().filter(|_| !is_default) {
        about.before = default;
        change(settings, &about)?;
    }
    // Also where it is the default: that points at the program of before, whatever its name means now.
    make_default(&settings.name)
}

fn make_default(name: &str) -> Result<(), NativeError> {
    about::set_default(name)
        .map_err(KernelError::system("setting net.ipv4.tcp_congestion_control"))
        .map_err(NativeError::from)
}

fn load(settings: &NativeInstallation, about: &About) -> Result<Done, NativeError> {
    let NativeInstallation { name, everyone, .. } = settings;
    let mut loaded =
        CongestionControl::load(object_of(settings.native), name, *everyone, |_| Ok(()))?;
    let map = loaded.map("settings")?;
    let value = about.value(settings, map.value_size() as usize);
    map.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY).map_err(bpf("writing the settings"))?;
    loaded.install(about::remove)
}

/// Writes into the map of the program that is installed.
fn change(settings: &NativeInstallation, about: &About) -> Result<Done, NativeError> {
    let _installing = Installing::start()?;
    let found = about::registered(&settings.name)?;
    let found = found.as_ref().and_then(about::settings).ok_or(NativeError::Missing("settings"))?;
    let (map, before) = found;
    let value = about.value(settings, before.len());
    let written = map.map.update(&0_u32.to_ne_bytes(), &value);
    written.map_err(KernelError::system("changing the parameters"))?;
    Ok(Done::Changed)
}

/// What the kernel keeps beside the parameters.
struct About {
    program: u64,
    before: String,
}

impl About {
    fn of(settings: &NativeInstallation, known: Option<&InstalledNative>) -> Self {
        let before = known.and_then(|known| known.before.clone()).unwrap_or_default();
        Self { program: program_hash(settings.native), before }
    }

    /// Whether the program that is installed does what is asked for with other parameters.
    fn is_same(&self, known: &InstalledNative, everyone: bool) -> bool {
        known.program == self.program && known.everyone == everyone && known.pinned
    }

    fn value(&self, settings: &NativeInstallation, bytes: usize) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut value = vec![0; at::END];
        value[at::MAGIC].copy_from_slice(&MAGIC.to_ne_bytes());
        value[at::PROGRAM].copy_from_slice(&self.program.to_ne_bytes());
        value[at::INSTALLED_AT].copy_from_slice(&now.to_ne_bytes());
        put_text(&mut value[at::CONTROLLER], &settings.controller);
        put_text(&mut value[at::VERSION], env!("CARGO_PKG_VERSION"));
        put_text(&mut value[at::BEFORE], &self.before);
        value.extend(settings.words.iter().flat_map(|word| word.to_ne_bytes()));
        value.resize(bytes, 0);
        value
    }
}
