//! What the launcher passes on, read once from the environment, before `main`.

use std::ffi::CStr;
use std::sync::OnceLock;

use cellpace_control::message::Token;
use cellpace_control::{Rules, variables};
use libc::{c_char, c_int};

/// Of a name in the abstract space, without its zero.
const LONGEST_NAME: usize = 107;

/// What the preloaded library knows.
pub(crate) struct PreloadConfig {
    pub(crate) token: Token,
    pub(crate) rules: Rules,
    /// The control sockets' addresses differ in what stands behind the name. A copy: programs
    /// write their title over the environment.
    name: [u8; LONGEST_NAME],
    name_len: usize,
    pub(crate) workers: u32,
}

impl PreloadConfig {
    /// The address of a control socket.
    pub(crate) fn control(&self, worker: u32) -> Option<(libc::sockaddr_un, libc::socklen_t)> {
        let suffix = variables::worker_name(worker);
        abstract_address(self.name.get(..self.name_len)?, if worker == 0 { &[] } else { &suffix })
    }
}

static CONFIG: OnceLock<PreloadConfig> = OnceLock::new();

/// The configuration; `None` when the library was not loaded by a launcher.
pub(crate) fn config() -> Option<&'static PreloadConfig> {
    CONFIG.get()
}

/// Runs when the library is loaded, with the arguments of `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;

extern "C" fn loaded(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    if let Some(config) = read(environment) {
        let _ = CONFIG.set(config);
    }
}

fn read(environment: *const *const c_char) -> Option<PreloadConfig> {
    let token = variables::parse_token(variable(environment, variables::TOKEN)?)?;
    let rules = std::str::from_utf8(variable(environment, variables::RULES)?).ok()?.parse().ok()?;
    let (name, workers) = variables::parse_control(variable(environment, variables::CONTROL)?)?;
    let mut kept = [0; LONGEST_NAME];
    kept.get_mut(..name.len())?.copy_from_slice(name);
    let config = PreloadConfig { token, rules, name: kept, name_len: name.len(), workers };
    config.control(workers - 1).is_some().then_some(config)
}

/// The value of a variable, found without the C library, which may not be ready.
fn variable(environment: *const *const c_char, name: &str) -> Option<&'static [u8]> {
    if environment.is_null() {
        return None;
    }
    let mut place = environment;
    loop {
        // SAFETY: the list ends with a null pointer, and we have not passed it.
        let entry = unsafe { *place };
        if entry.is_null() {
            return None;
        }
        // SAFETY: entries are strings that the loader keeps for as long as the process lives.
        let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if let Some(value) =
            entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        {
            return Some(value);
        }
        // SAFETY: that was not the last one.
        place = unsafe { place.add(1) };
    }
}

/// The address of an abstract name; `None` if it is too long.
pub(crate) fn abstract_address(
    name: &[u8],
    suffix: &[u8],
) -> Option<(libc::sockaddr_un, libc::socklen_t)> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as _, sun_path: [0; 108] };
    let len = name.len() + suffix.len();
    let place = address.sun_path.get_mut(1..=len)?;
    for (to, from) in place.iter_mut().zip(name.iter().chain(suffix)) {
        *to = *from as c_char;
    }
    let len = size_of::<libc::sa_family_t>() + 1 + len;
    Some((address, len as libc::socklen_t))
}
