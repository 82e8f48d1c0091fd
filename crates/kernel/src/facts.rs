//! What this kernel and this process can do, and what follows from it.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::KernelError;
use crate::driver::installed::Installed;
use crate::driver::layout::LAYOUT;
use crate::driver::status::installed;
use crate::host::bpffs::is_unfinished;
use crate::host::btf::{BtfError, CallbackVariant, has_links, variant};
use crate::host::pins::{pins, who};

pub use crate::host::btf::btf_path;

/// Found out, or made up by a test.
#[derive(Debug)]
pub struct Facts {
    /// As `uname -r` prints it.
    pub release: String,
    /// What the kernel's types show; `None`: it does not export them.
    pub btf: Option<Result<CallbackVariant, BtfError>>,
    /// Whether congestion controls have links, without which MDI does not run in the kernel.
    pub links: bool,
    /// Of this process, as in `/proc/self/status`.
    pub capabilities: u64,
    /// `none`, `integrity` or `confidentiality`; `None`: the kernel has no lockdown.
    pub lockdown: Option<String>,
    /// The sysctl; `None`: the kernel has no bpf(2).
    pub unprivileged_bpf_disabled: Option<u8>,
    /// An installation was killed and left pins; only root can know.
    pub unfinished: bool,
    /// What is installed.
    pub installed: Result<Installed, KernelError>,
    /// Who may use what is installed, in words.
    pub open_to: Option<String>,
}

/// Why the kernel driver cannot be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Built without it.
    NoBpf,
    /// Its version.
    TooOld(String),
    /// Where there should be types.
    NoBtf(PathBuf),
    /// Types that do not fit.
    Unfit(BtfError),
    /// None to congestion controls, which MDI in the kernel needs.
    NoLinks,
    /// Those that are missing.
    NoCapability(Vec<&'static str>),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBpf => f.write_str("this kernel has no bpf(2): it needs CONFIG_BPF_SYSCALL"),
            Self::TooOld(release) => {
                let (major, minor) = OLDEST;
                write!(
                    f,
                    "Linux {release} is too old: before {major}.{minor}, congestion controls in BPF \
                     may not set the pacing rate"
                )
            }
            Self::NoBtf(path) => write!(
                f,
                "this kernel has no BTF ({} is missing): it needs CONFIG_DEBUG_INFO_BTF",
                path.display()
            ),
            Self::Unfit(error) => write!(f, "this kernel cannot run the kernel driver: {error}"),
            Self::NoLinks => f.write_str(NO_LINKS),
            Self::NoCapability(missing) => {
                write!(f, "this process lacks {}: run it as root", missing.join(" and "))
            }
        }
    }
}

/// What MDI in the kernel lacks.
pub(crate) const NO_LINKS: &str =
    "this kernel has no links to congestion controls in BPF, which MDI needs: Linux 6.4 has them";
/// Writing the pacing rate of a socket: the latest of what is needed. The verifier of 5.10 refuses
/// the program for it.
const OLDEST: (u32, u32) = (6, 0);

const SYS_ADMIN: u32 = 21;
const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];

impl Facts {
    /// Looks at the running kernel, this process, and the kernel driver of this name.
    pub fn find(name: &str) -> Self {
        let release = release();
        let disabled = first_line("/proc/sys/kernel/unprivileged_bpf_disabled");
        Self {
            btf: running_variant(&btf_path()).ok(),
            links: running_links(&btf_path()),
            capabilities: fs::read_to_string("/proc/self/status")
                .map_or(0, |status| capabilities(&status)),
            lockdown: first_line("/sys/kernel/security/lockdown").and_then(|line| chosen(&line)),
            unprivileged_bpf_disabled: disabled.and_then(|value| value.parse().ok()),
            unfinished: is_unfinished(name),
            installed: installed(name),
            open_to: who(&pins(name)),
            release,
        }
    }

    /// Everything that stands against an installation.
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let mut obstacles = Vec::new();
        if self.unprivileged_bpf_disabled.is_none() {
            obstacles.push(Obstacle::NoBpf);
        }
        obstacles.extend(too_old(&self.release));
        match &self.btf {
            None => obstacles.push(Obstacle::NoBtf(btf_path())),
            Some(Err(error)) => obstacles.push(Obstacle::Unfit(*error)),
            Some(Ok(_)) => {}
        }
        let missing = self.missing_capabilities();
        if !missing.is_empty() {
            obstacles.push(Obstacle::NoCapability(missing));
        }
        obstacles
    }

    /// Everything that stands against MDI in the kernel (`cellpace kernel install --cc mdi`).
    pub fn obstacles_to_mdi(&self) -> Vec<Obstacle> {
        let mut obstacles = self.obstacles();
        if matches!(self.btf, Some(Ok(_))) && !self.links {
            obstacles.push(Obstacle::NoLinks);
        }
        obstacles
    }

    /// What is no obstacle and yet good to know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lockdown.as_deref() == Some("confidentiality") {
            notes.push(
                "lockdown is at `confidentiality`: the kernel may refuse the program although \
                 nothing else stands against it"
                    .to_owned(),
            );
        }
        if self.unfinished {
            notes.push(
                "an installation was killed and left pins, which keep memory of the kernel's: \
                 `cellpace kernel install` or `cellpace kernel remove` removes them"
                    .to_owned(),
            );
        }
        notes
    }

    /// Checks that this process may use the kernel driver for TCP.
    ///
    /// # Errors
    /// Why it may not, in words.
    pub fn check_usable(&self) -> Result<(), String> {
        match &self.installed {
            Ok(installed) if installed.layout == LAYOUT => Ok(()),
            Ok(Installed { version, layout, .. }) => {
                let error = KernelError::OtherVersion { version: version.clone(), layout: *layout };
                Err(error.to_string())
            }
            Err(KernelError::NotInstalled) => Err(self.why_not_installed()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn why_not_installed(&self) -> String {
        let kernels = |obstacle: &Obstacle| !matches!(obstacle, Obstacle::NoCapability(_));
        match self.obstacles().into_iter().find(kernels) {
            Some(obstacle) => obstacle.to_string(),
            None => KernelError::NotInstalled.to_string(),
        }
    }

    /// Names of those that an installation needs and we lack.
    pub fn missing_capabilities(&self) -> Vec<&'static str> {
        let has = |bit: u32| self.capabilities & (1 << bit) != 0;
        if has(SYS_ADMIN) {
            return Vec::new();
        }
        NEEDED.into_iter().filter(|(bit, _)| !has(*bit)).map(|(_, name)| name).collect()
    }
}

/// The variant for the kernel whose types are in this file.
///
/// # Errors
/// The outer one when there are no types to look at, the inner one when they do not fit.
pub fn running_variant(path: &Path) -> io::Result<Result<CallbackVariant, BtfError>> {
    fs::read(path).map(|btf| variant(&btf))
}

/// [`Obstacle::TooOld`], if the kernel that runs is.
pub fn running_too_old() -> Option<Obstacle> {
    too_old(&release())
}

fn too_old(release: &str) -> Option<Obstacle> {
    version(release)
        .is_some_and(|version| version < OLDEST)
        .then(|| Obstacle::TooOld(release.to_owned()))
}

/// As `uname -r` prints it.
pub(crate) fn release() -> String {
    first_line("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Whether the kernel whose types are in this file has links to congestion controls.
pub fn running_links(path: &Path) -> bool {
    fs::read(path).is_ok_and(|btf| has_links(&btf).unwrap_or(false))
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

/// `6.18.44-fc` is 6.18.
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The effective ones, from `/proc/PID/status`.
fn capabilities(status: &str) -> u64 {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// `none [integrity] confidentiality` is `integrity`.
fn chosen(line: &str) -> Option<String> {
    Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where everything is well and nothing installed.
    fn well() -> Facts {
        Facts {
            release: "6.18.44-fc".to_owned(),
            btf: Some(Ok(CallbackVariant::Ack)),
            links: true,
            capabilities: 1 << 38 | 1 << 39,
            lockdown: Some("none".to_owned()),
            unprivileged_bpf_disabled: Some(2),
            unfinished: false,
            installed: Err(KernelError::NotInstalled),
            open_to: None,
        }
    }

    fn reason(facts: &Facts) -> String {
        facts.check_usable().unwrap_err()
    }

    #[test]
    fn where_everything_is_well_nothing_stands_against_it() {
        let facts = well();
        assert_eq!(facts.obstacles(), []);
        assert_eq!(facts.notes(), [""; 0]);
        assert!(reason(&facts).contains("cellpace kernel install"));
        let layout = LAYOUT;
        let facts = Facts { installed: Ok(Installed { layout, ..Installed::default() }), ..facts };
        assert_eq!(facts.check_usable(), Ok(()));
    }

    #[test]
    fn a_kernel_without_btf_is_told_so() {
        let facts = Facts { btf: None, ..well() };
        assert_eq!(facts.obstacles(), [Obstacle::NoBtf("/sys/kernel/btf/vmlinux".into())]);
        assert!(facts.obstacles()[0].to_string().contains("CONFIG_DEBUG_INFO_BTF"));
        assert!(reason(&facts).contains("no BTF"), "{}", reason(&facts));
    }

    #[test]
    fn a_kernel_without_the_callbacks_is_told_so() {
        let facts = Facts { btf: Some(Err(BtfError::NoStructOps)), ..well() };
        assert_eq!(facts.obstacles(), [Obstacle::Unfit(BtfError::NoStructOps)]);
        assert!(reason(&facts).contains("Linux 5.6"));
    }

    #[test]
    fn a_kernel_without_links_has_the_driver_and_not_mdi() {
        assert_eq!(well().obstacles_to_mdi(), []);
        let facts = Facts { links: false, ..well() };
        assert_eq!(facts.obstacles(), []);
        assert_eq!(facts.obstacles_to_mdi(), [Obstacle::NoLinks]);
        assert!(Obstacle::NoLinks.to_string().contains("6.4"));
        let facts = Facts { btf: None, ..facts };
        assert_eq!(facts.obstacles_to_mdi(), facts.obstacles(), "one reason is enough");
    }

    #[test]
    fn an_old_kernel_is_told_so() {
        let facts = Facts { release: "5.15.0-200-generic".to_owned(), ..well() };
        assert_eq!(facts.obstacles(), [Obstacle::TooOld("5.15.0-200-generic".to_owned())]);
        assert!(reason(&facts).contains("before 6.0"));
        let facts = Facts { release: "6.0.0".to_owned(), ..well() };
        assert_eq!(facts.obstacles(), []);
        let facts = Facts { unprivileged_bpf_disabled: None, ..facts };
        assert_eq!(facts.obstacles(), [Obstacle::NoBpf]);
    }

    #[test]
    fn missing_capabilities_are_named_and_do_not_decide_what_is_used() {
        let facts = Facts { capabilities: 1 << 39, ..well() };
        assert_eq!(facts.obstacles(), [Obstacle::NoCapability(vec!["CAP_PERFMON"])]);
        let facts = Facts { capabilities: 0, ..well() };
        assert!(facts.obstacles()[0].to_string().contains("CAP_BPF and CAP_PERFMON"));
        assert!(reason(&facts).contains("not installed"));
        let facts = Facts { capabilities: 1 << 21, ..well() };
        assert_eq!(facts.obstacles(), [], "CAP_SYS_ADMIN has both");
    }

    #[test]
    fn lockdown_and_pins_of_a_killed_installation_are_noted() {
        let lockdown = Some("confidentiality".to_owned());
        let facts = Facts { lockdown, unfinished: true, ..well() };
        assert_eq!(facts.obstacles(), []);
        assert!(facts.notes()[0].contains("lockdown") && facts.notes()[1].contains("killed"));
    }

    #[test]
    fn what_is_not_for_us_or_of_another_version_leaves_the_gate_with_the_reason() {
        let path = pins("cellpace");
        let who = "root alone".to_owned();
        let installed = Err(KernelError::NoPermission { path, who });
        assert!(reason(&Facts { installed, ..well() }).contains("root alone"));
        let installed = Ok(Installed { layout: 99, version: "9.9".into(), ..Installed::default() });
        assert!(reason(&Facts { installed, ..well() }).contains("9.9"));
    }

    #[test]
    fn the_kernels_files_read() {
        assert_eq!(version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert_eq!(version("unknown"), None);
        assert_eq!(capabilities("Name:\tx\nCapEff:\t0000000000000400\n"), 1 << 10);
        assert_eq!(capabilities("nothing"), 0);
        assert_eq!(chosen("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert!(!Facts::find("cellpace_nobody").release.is_empty());
    }
}
