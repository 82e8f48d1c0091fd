//! What a link changes outside its own namespaces, and what is left when it is killed.
//!
//! Nearly everything goes with the process, because the kernel ties it to an open file. Two things
//! do not, and are left to the guardian, and to `clean` if that is killed as well: a sysctl that
//! `--nat` changed, which is written down in a file until it is put back, and programs, which carry
//! the link's name in their environment.

use std::ffi::CStr;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cellpace_os::socket::network_namespace;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Where changes are written down.
const FOLDER: &str = "/run/cellpace";
/// The variable that names the link of a program: process and start time of its cellpace.
pub const LINK: &str = "CELLPACE_LINK";

/// The guardian's name among the processes.
pub(crate) const GUARD: &CStr = c"cellpace-guard";

/// Changes of sysctls by this link; put back when it is dropped.
pub(crate) struct Rests {
    file: PathBuf,
    record: Record,
}

/// What a link has written down. `/run` is common to network namespaces, and in containers it may
/// outlive a boot; sysctls are neither.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    place: BootNamespace,
    changes: Vec<Change>,
}

/// Where changes were made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct BootNamespace {
    boot: String,
    namespace: String,
}

impl BootNamespace {
    /// Of this thread.
    fn here() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        Ok(Self { boot, namespace: network_namespace()? })
    }
}

/// A file's text before a link changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    file: String,
    before: String,
}

impl Rests {
    /// Nothing changed yet. What earlier links left is put back first.
    pub(crate) fn open() -> io::Result<Self> {
        put_back_dead();
        let record = Record { place: BootNamespace::here()?, changes: Vec::new() };
        Ok(Self { file: Path::new(FOLDER).join(own_name()), record })
    }

    /// Whether a file has another value than `value`, or would have without links.
    pub(crate) fn would_change(&self, file: &str, value: &str) -> io::Result<bool> {
        let _lock = lock()?;
        Ok(self.before(file)? != value)
    }

    fn before(&self, file: &str) -> io::Result<String> {
        // Another link may have changed it before; then its value before that is the true one.
        let known = others(&self.file, &self.record.place);
        let known = known.into_iter().find(|change| change.file == file);
        match known {
            Some(change) => Ok(change.before),
            None => Ok(fs::read_to_string(file)?.trim().to_owned()),
        }
    }

    /// Sets a file to `value` for as long as this lives.
    pub(crate) fn set(&mut self, file: &str, value: &str) -> io::Result<()> {
        let _lock = lock()?;
        let before = self.before(file)?;
        if before == value {
            return Ok(());
        }
        self.record.changes.push(Change { file: file.to_owned(), before });
        fs::write(&self.file, self.record.to_string())?;
        fs::write(file, value)
    }
}

impl Drop for Rests {
    fn drop(&mut self) {
        let Ok(_lock) = lock() else { return };
        put_back(&self.file, &self.record);
        leave_nothing();
    }
}

/// Removes what links of this user left behind that were killed together with their guardians:
/// programs that still run, settings of the system that were changed. What belongs to links that
/// still run is not touched.
pub fn clean() {
    let here = pid_namespace("self");
    // In another namespace of processes, the numbers in names are others.
    end_programs(|process, link| is_dead(link) && pid_namespace(process) == here);
    put_back_dead();
}

/// Ends the programs of which this is true, by their number and the name of their link.
pub(crate) fn end_programs(is_meant: impl Fn(&str, &str) -> bool) {
    let own = std::process::id() as i32;
    let has_such_a_link = |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let name = environment.split(|byte| *byte == 0).find_map(|entry| {
            let entry = str::from_utf8(entry).ok()?;
            entry.strip_prefix(LINK)?.strip_prefix('=')
        });
        // Guardians have work to do, and end by themselves.
        let number = process.to_string();
        *process != own && name.is_some_and(|name| is_meant(&number, name)) && !is_guard(*process)
    };
    for process in cellpace_os::process::all().filter(has_such_a_link) {
        // It may be another user's, or have ended.
        let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
    }
}

fn is_guard(process: i32) -> bool {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end() == GUARD.to_str().unwrap_or_default()
}

/// Puts back what links changed that are gone.
fn put_back_dead() {
    if !Path::new(FOLDER).exists() {
        return;
    }
    let Ok(_lock) = lock() else { return };
    let dead =
        files().filter(|file| !file.file_name().is_some_and(|n| is_alive(&n.to_string_lossy())));
    dead.for_each(|file| put_back(&file, &read(&file)));
    leave_nothing();
}

/// Puts back what one link changed and did not put back itself, when it is gone.
pub(crate) fn put_back_of(link: &str) {
    let file = Path::new(FOLDER).join(link);
    if !file.exists() {
        return;
    }
    let Ok(_lock) = lock() else { return };
    put_back(&file, &read(&file));
    leave_nothing();
}

/// Removes the folder when nothing is written down any more.
fn leave_nothing() {
    // It stays for as long as there is a file in it.
    let _ = fs::remove_dir(FOLDER);
}

/// Puts changes back and removes their file, but leaves settings alone that others still need. What
/// was changed in another network namespace is left to a link there, and what was before this boot is
/// no more.
fn put_back(file: &Path, record: &Record) {
    // Nobody could do anything about a failure here, except read the file, which then stays.
    let Ok(here) = BootNamespace::here() else { return };
    if record.place.boot != here.boot {
        let _ = fs::remove_file(file);
    }
    if record.place != here {
        return;
    }
    let needed = others(file, &here);
    let is_back = |change: &&Change| {
        needed.iter().any(|other| other.file == change.file)
            || !Path::new(&change.file).exists()
            || fs::write(&change.file, &change.before).is_ok()
    };
    if record.changes.iter().filter(is_back).count() == record.changes.len() {
        let _ = fs::remove_file(file);
    }
}

/// Changes at this place by other links that still run.
fn others(own: &Path, place: &BootNamespace) -> Vec<Change> {
    let is_alive = |file: &PathBuf| {
        file != own && file.file_name().is_some_and(|name| is_alive(&name.to_string_lossy()))
    };
    let records = files().filter(is_alive).map(|file| read(&file));
    records.filter(|record| record.place == *place).flat_map(|record| record.changes).collect()
}

fn files() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn read(file: &Path) -> Record {
    parse(&fs::read_to_string(file).unwrap_or_default())
}

/// The first words of the lines that say where it was.
const BOOT: &str = "boot";
const NAMESPACE: &str = "network namespace";

fn parse(text: &str) -> Record {
    let fields = || text.lines().filter_map(|line| line.split_once('\t'));
    let field = |name| fields().find(|(found, _)| *found == name);
    let value = |name| field(name).map_or_else(String::new, |(_, value)| value.to_owned());
    let place = BootNamespace { boot: value(BOOT), namespace: value(NAMESPACE) };
    // Nothing but what this program changes is ever written.
    let is_ours = |file: &str| file.starts_with("/proc/sys/net/") && !file.contains("..");
    let changes = fields().filter(|(file, _)| is_ours(file));
    let change =
        |(file, before): (&str, &str)| Change { file: file.to_owned(), before: before.to_owned() };
    Record { place, changes: changes.map(change).collect() }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BootNamespace { boot, namespace } = &self.place;
        writeln!(f, "{BOOT}\t{boot}\n{NAMESPACE}\t{namespace}")?;
        self.changes.iter().try_for_each(|Change { file, before }| writeln!(f, "{file}\t{before}"))
    }
}

fn lock() -> io::Result<Flock<File>> {
    fs::create_dir_all(FOLDER)?;
    // Who cannot open it cannot keep the lock from us.
    fs::set_permissions(FOLDER, Permissions::from_mode(0o711))?;
    Flock::lock(File::open(FOLDER)?, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
}

/// This process, so that no later one is taken for it: number and start time.
pub(crate) fn own_name() -> String {
    let process = std::process::id();
    format!("{process}-{}", start_time(process).unwrap_or_default())
}

fn is_alive(name: &str) -> bool {
    parts(name).is_some_and(|(process, started)| start_time(process) == Some(started))
}

/// Whether it is the name of a link, and of one that is gone.
fn is_dead(name: &str) -> bool {
    parts(name).is_some() && !is_alive(name)
}

fn parts(name: &str) -> Option<(u32, u64)> {
    let (process, started) = name.split_once('-')?;
    Some((process.parse().ok()?, started.parse().ok()?))
}

fn pid_namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// When a process started, in ticks since boot.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the start time is the 20th field after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // A zombie is gone for all that matters here.
    (fields.first() != Some(&"Z")).then(|| fields.get(19)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_known_by_number_and_start() {
        assert!(is_alive(&own_name()));
        let (process, started) =
            own_name().split_once('-').map(|(p, s)| (p.to_owned(), s.to_owned())).unwrap();
        assert!(!is_alive(&format!("{process}-{}", started.parse::<u64>().unwrap() + 1)));
        assert!(is_dead("4000000000-1") && !is_dead(&own_name()));
        assert!(!is_dead("4000000000") && !is_dead("x-1") && !is_dead(""), "no names of links");
        assert!(!is_alive("4000000000-1") && !is_alive("x-1") && !is_alive("") && !is_alive("1"));
    }

    #[test]
    fn changes_are_written_and_read() {
        let change = |file: &str, before: &str| Change { file: file.into(), before: before.into() };
        let changes = vec![change("/proc/sys/net/ipv4/conf/eth0/forwarding", "0")];
        let record = Record { place: BootNamespace::here().unwrap(), changes };
        assert_eq!(parse(&record.to_string()), record);
        let foreign = parse("/etc/passwd\tx\n/proc/sys/net/../kernel/x\t1\ngarbage\n");
        assert!(foreign.changes.is_empty());
    }

    #[test]
    fn what_was_changed_elsewhere_is_not_put_back_here() {
        let folder = tempfile::tempdir().unwrap();
        let (record, sysctl) = (folder.path().join("1-1"), folder.path().join("forwarding"));
        let changes = vec![Change { file: sysctl.to_string_lossy().into(), before: "0".into() }];
        let here = BootNamespace::here().unwrap();
        let put_back_at = |place: BootNamespace| {
            fs::write(&sysctl, "1").unwrap();
            fs::write(&record, "").unwrap();
            put_back(&record, &Record { place, changes: changes.clone() });
            (fs::read_to_string(&sysctl).unwrap(), record.exists())
        };
        let namespace = BootNamespace { namespace: "1:1".into(), ..here.clone() };
        assert_eq!(put_back_at(namespace), ("1".into(), true), "a link there will");
        let boot = BootNamespace { boot: "another".into(), ..here.clone() };
        assert_eq!(put_back_at(boot), ("1".into(), false), "it is gone with the boot");
        assert_eq!(put_back_at(here), ("0".into(), false));
    }
}
