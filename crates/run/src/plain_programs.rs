//! Programs that the program has started and that cannot be preloaded: static ones of a shell, say.
//! Their connections are plain, and nothing but a look at them shows it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cellpace_os::process;

use crate::notice::RunNotice;
use crate::program::unfit_program;

/// From one look at connections to the next.
const EVERY: Duration = Duration::from_secs(1);

/// From one look at processes to the next, which reads the list of all: first often, since servers
/// start with the program, then seldom.
const EARLY: Duration = Duration::from_secs(10);
const SELDOM: Duration = Duration::from_secs(10);

/// Connections of one program that are remembered, so that each counts once.
const MAX_REMEMBERED: usize = 65_536;

/// The descendants of this process that were looked at.
pub(crate) struct PlainPrograms {
    started_at: Instant,
    connections_at: Instant,
    processes_at: Instant,
    known: HashMap<i32, KnownProgram>,
}

/// What a process runs, and whether it can be preloaded.
struct KnownProgram {
    /// Device and inode of its executable: it may run another one later.
    executable: (u64, u64),
    is_plain: bool,
    /// Inodes of the sockets that were counted.
    counted: HashSet<u64>,
}

impl PlainPrograms {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let known = HashMap::new();
        Self { started_at: now, connections_at: now, processes_at: now, known }
    }

    /// Looks for new programs, and for new connections of those that are known, when it is time.
    pub(crate) fn look(&mut self, notice: &mut dyn FnMut(RunNotice)) {
        let now = Instant::now();
        if now >= self.processes_at {
            let is_early = now.duration_since(self.started_at) < EARLY;
            self.processes_at = now + if is_early { EVERY } else { SELDOM };
            self.look_at_processes(notice);
        }
        if now < self.connections_at {
            return;
        }
        self.connections_at = now + EVERY;
        for (process, known) in self.known.iter_mut().filter(|(_, known)| known.is_plain) {
            match known.count_new(*process) {
                0 => {}
                count => notice(RunNotice::PlainConnections(*process, count)),
            }
        }
    }

    fn look_at_processes(&mut self, notice: &mut dyn FnMut(RunNotice)) {
        let descendants = process::descendants();
        self.known.retain(|process, _| descendants.contains(process));
        for process in descendants {
            let path = PathBuf::from(format!("/proc/{process}/exe"));
            // It has ended, or is another user's.
            let Ok(facts) = fs::metadata(&path) else { continue };
            let executable = (facts.dev(), facts.ino());
            if self.known.get(&process).is_some_and(|known| known.executable == executable) {
                continue;
            }
            let reason = unfit_program(&path);
            let (is_plain, counted) = (reason.is_some(), HashSet::new());
            self.known.insert(process, KnownProgram { executable, is_plain, counted });
            if let Some(reason) = reason {
                notice(RunNotice::NotPreloaded(process, process::name(process), reason));
            }
        }
    }
}

impl KnownProgram {
    /// Connections that were not counted before.
    fn count_new(&mut self, process: i32) -> u64 {
        if self.counted.len() > MAX_REMEMBERED {
            self.counted.clear();
        }
        let connected = connected_sockets(process);
        let own = sockets(process).into_iter().filter(|inode| connected.contains(inode));
        own.filter(|inode| self.counted.insert(*inode)).count() as u64
    }
}

/// Inodes of the sockets that a process has.
fn sockets(process: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode =
        |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    links.filter_map(inode).collect()
}

/// Inodes of the TCP connections in the network of a process.
fn connected_sockets(process: i32) -> HashSet<u64> {
    let texts = ["tcp", "tcp6"]
        .map(|kind| fs::read_to_string(format!("/proc/{process}/net/{kind}")).unwrap_or_default());
    texts.iter().flat_map(|text| text.lines()).filter_map(connected).collect()
}

/// The inode of a line of `/proc/net/tcp`, if that is an established connection.
fn connected(line: &str) -> Option<u64> {
    const ESTABLISHED: &str = "01";
    let mut fields = line.split_whitespace().skip(3);
    let is_established = fields.next()? == ESTABLISHED;
    is_established.then(|| fields.nth(5)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_of_a_process_are_found_and_each_counts_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _theirs = listener.accept().unwrap();
        let process = std::process::id().cast_signed();
        let counted = HashSet::new();
        let mut known = KnownProgram { executable: (0, 0), is_plain: true, counted };
        assert!(known.count_new(process) >= 2, "other tests have some, too");
        let inode = sockets(process).into_iter().find(|inode| known.counted.contains(inode));
        assert!(inode.is_some_and(|inode| !known.counted.insert(inode)));
    }

    #[test]
    fn only_established_connections_count() {
        let line = |state: &str| {
            format!(
                "   0: 0100007F:1F90 0100007F:C350 {state} 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0"
            )
        };
        assert_eq!(connected(&line("01")), Some(4242));
        assert_eq!(connected(&line("0A")), None, "a listener");
        assert_eq!(connected("  sl  local_address rem_address   st"), None);
    }
}
