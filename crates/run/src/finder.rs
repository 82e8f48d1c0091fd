//! Finds the descriptors of attached connections that should be kicked.
//!
//! All connections that are searched are found in one pass over the machine's descriptors, so there is
//! nothing to gain from remembering processes; pauses in proportion to what a pass took keep the cost
//! below a bound whatever the machine has open. It is a thread of its own: neither acks nor new
//! connections wait for it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cellpace_kernel::descriptors::{DescriptorPlace, Descriptors, MOST};
use cellpace_tcp::{KernelDriver, RemoteSocket};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// A pause is at least this many times as long as the CPU time of the pass before: 3 % of a core.
const PAUSE_FACTOR: u32 = 32;
/// The shortest pause.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// A socket that was not found is searched again after this time, then after twice that, and so on.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest such time: a socket need not be in any process that we see.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Processes that are remembered before those that have ended are forgotten.
const MAX_PROCESSES: usize = 64;

/// Searches as long as it lives.
#[derive(Debug)]
pub(crate) struct Finder {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Finder {
    pub(crate) fn start(driver: Arc<KernelDriver>, warn: fn(&str)) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let search =
            Search { driver, warn, open: None, tries: Tries::default(), processes: HashMap::new() };
        let thread = thread::Builder::new().name("cellpace-find".to_owned());
        let thread = thread.spawn(move || search.run(&stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Search {
    driver: Arc<KernelDriver>,
    warn: fn(&str),
    /// Made when it is first needed: controllers with windows never do.
    open: Option<Descriptors>,
    tries: Tries,
    /// Processes in which something was found.
    processes: HashMap<i32, RemoteSocket>,
}

/// Why searching has no sense any more.
struct Hopeless(String);

impl Search {
    fn run(mut self, stopped: &Receiver<()>) {
        let mut pause = MIN_PAUSE;
        let mut is_refused = false;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let before = cpu_time();
            match self.look() {
                Ok(Some(pid)) if !is_refused => {
                    is_refused = true;
                    (self.warn)(&format!(
                        "connections of process {pid} are not kicked: its descriptors cannot be borrowed \
                         (needs CAP_SYS_PTRACE)"
                    ));
                }
                Ok(_) => {}
                Err(Hopeless(why)) => {
                    return (self.warn)(&format!("connections are not kicked: {why}"));
                }
            }
            pause = ((cpu_time() - before) * PAUSE_FACTOR).max(MIN_PAUSE);
        }
    }

    /// Searches the sockets that are due. Returns a process that refused access, if there is one.
    fn look(&mut self) -> Result<Option<i32>, Hopeless> {
        let due = self.tries.due(&self.driver.unreachable(), Instant::now());
        if due.is_empty() {
            return Ok(None);
        }
        if self.open.is_none() {
            self.open = Some(Descriptors::open().map_err(|error| Hopeless(error.to_string()))?);
        }
        // It has just been made sure that there is one.
        let Some(open) = &mut self.open else { return Ok(None) };
        let places = open.find(&due).map_err(|error| Hopeless(error.to_string()))?;
        let mut refused = None;
        let mut found = HashSet::new();
        for place in places {
            // Of several descriptors one will do.
            if found.contains(&place.cookie) {
                continue;
            }
            match self.set_socket(&place) {
                Ok(()) => drop(found.insert(place.cookie)),
                Err(Errno::PERM) => refused = Some(place.pid),
                // It has closed it, or has ended, since.
                Err(_) => {}
            }
        }
        Ok(refused)
    }

    fn set_socket(&mut self, place: &DescriptorPlace) -> Result<(), Errno> {
        let socket = self.on(place)?;
        socket.check(place.cookie)?;
        self.driver.set_remote_socket(place.cookie, socket);
        Ok(())
    }

    /// A hold on the descriptor, which shares what it has of the process with the others there.
    fn on(&mut self, place: &DescriptorPlace) -> Result<RemoteSocket, Errno> {
        if let Some(known) = self.processes.get(&place.pid).filter(|known| known.is_alive()) {
            return Ok(known.with_descriptor(place.descriptor));
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.retain(|_, socket| socket.is_alive());
        }
        let pid = Pid::from_raw(place.pid).ok_or(Errno::SRCH)?;
        let socket = RemoteSocket::new(pid, place.descriptor)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.processes.insert(place.pid, socket.clone());
        Ok(socket)
    }
}

/// When sockets that were not found are searched again.
#[derive(Debug, Default)]
struct Tries(HashMap<u64, Try>);

#[derive(Debug)]
struct Try {
    next: Instant,
    pause: Duration,
}

impl Tries {
    /// Those of `unreachable` that are to be searched now, as many as fit into a pass, the newest first.
    /// They count as searched.
    fn due(&mut self, unreachable: &[u64], now: Instant) -> Vec<u64> {
        // Those that were found, or have closed.
        self.0.retain(|cookie, _| unreachable.binary_search(cookie).is_ok());
        let is_due = |cookie: &u64| self.0.get(cookie).is_none_or(|tried| tried.next <= now);
        // Cookies are counted up.
        let due: Vec<u64> = unreachable.iter().rev().copied().filter(is_due).take(MOST).collect();
        for cookie in &due {
            let before = self.0.get(cookie).map(|tried| tried.pause * 2);
            let pause = before.map_or(FIRST_PAUSE, |pause| pause.min(MAX_PAUSE));
            self.0.insert(*cookie, Try { next: now + pause, pause });
        }
        due
    }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock begins at zero and has less than a second of nanoseconds.
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_found_is_searched_ever_more_rarely() {
        let (mut tries, start) = (Tries::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(tries.due(&[3, 5], at(0)), [5, 3]);
        assert_eq!(tries.due(&[3, 5, 9], at(100)), [9]);
        assert_eq!(tries.due(&[3, 5, 9], at(250)), [5, 3]);
        assert_eq!(tries.due(&[5], at(700)), [] as [u64; 0]);
        assert_eq!(tries.due(&[5], at(750)), [5]);
        assert_eq!(tries.due(&[3], at(751)), [3], "it was found in between, and is lost again");
        let mut passes = 0;
        for second in 1..3600 {
            passes += tries.due(&[3], at(1000 * second)).len();
        }
        assert!((55..80).contains(&passes), "{passes} in an hour");
    }

    #[test]
    fn more_than_fit_into_a_pass_take_turns() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        let many: Vec<u64> = (0..MOST as u64 + 10).collect();
        assert_eq!(tries.due(&many, now).len(), MOST);
        assert_eq!(tries.due(&many, now), (0..10).rev().collect::<Vec<u64>>());
    }
}
