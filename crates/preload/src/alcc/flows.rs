//! The engine and the flows of the process itself.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cellpace_cc::{ControllerSpec, DEFAULT_CONTROLLER, MAX_FILE_BYTES};
use cellpace_control::message::Token;
use cellpace_control::{FlowName, Owner};
use cellpace_tcp::{FlowHandle, FlowOptions, FlowOutcome, FlowStats, RelayEngine};
use libc::c_int;

use super::error::CallFailure;
use crate::config::abstract_address;
use crate::reserve;
use crate::sys::{Fd, Lent, NameSide, SocketName, number_option};

/// What a process has.
pub(crate) struct ProcessFlows {
    /// A child has neither its parent's engine thread nor, perhaps, the lock in a good state.
    process: u32,
    engine: RelayEngine,
    next_flow: AtomicU64,
    state: Mutex<FlowTable>,
}

#[derive(Default)]
struct FlowTable {
    default: Option<ControllerSpec>,
    /// What was chosen for sockets that have no connection yet.
    chosen: HashMap<DescriptorFile, ControllerSpec>,
    flows: HashMap<DescriptorFile, ProcessFlow>,
    /// When there are as many entries, those are removed whose descriptors were closed.
    clean_at: usize,
}

/// A descriptor, and which file it stood for: numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct DescriptorFile {
    fd: c_int,
    device: u64,
    inode: u64,
}

struct ProcessFlow {
    number: u64,
    handle: FlowHandle,
    tcp: Arc<OwnedFd>,
}

static CURRENT: AtomicPtr<ProcessFlows> = AtomicPtr::new(std::ptr::null_mut());
static TOKEN: OnceLock<Token> = OnceLock::new();

/// What names of this process's flows are signed with; `None` while there were none.
pub(crate) fn token() -> Option<&'static Token> {
    TOKEN.get()
}

/// The TCP socket of a flow of this process.
pub(crate) fn lend(flow: u64, linger: bool) -> Option<Lent> {
    let state = process_flows().ok()?.state();
    let flow = state.flows.values().find(|known| known.number == flow)?;
    if linger {
        flow.handle.lend_linger();
    }
    let tcp = flow.tcp.try_clone().ok()?;
    let queued = flow.handle.stats().queued_bytes;
    Some(Lent { tcp: Fd::from_result(tcp.into_raw_fd().into())?, queued })
}

/// The flows of this process: made when first asked for, and anew in a child, whose parent's
/// is left alone.
pub(crate) fn process_flows() -> Result<&'static ProcessFlows, CallFailure> {
    let process = std::process::id();
    let current = CURRENT.load(Ordering::Acquire);
    // SAFETY: what is stored there is never freed.
    if let Some(flows) = unsafe { current.as_ref() }
        && flows.process == process
    {
        return Ok(flows);
    }
    let mut random = [0; size_of::<Token>() + size_of::<u64>()];
    fill(&mut random)?;
    let (token, flow) = random.split_at(size_of::<Token>());
    let _ = TOKEN.set(token.try_into().unwrap_or_default());
    let made = Box::into_raw(Box::new(ProcessFlows {
        process,
        engine: RelayEngine::new(),
        // Parent and child must not have flows of the same number.
        next_flow: AtomicU64::new(u64::from_ne_bytes(flow.try_into().unwrap_or_default())),
        state: Mutex::default(),
    }));
    let place = CURRENT.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire);
    let flows = match place {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
            other
        }
    };
    // SAFETY: what is stored is never freed.
    unsafe { flows.as_ref() }.ok_or_else(|| CallFailure::new(libc::ENOMEM, "out of memory"))
}

fn fill(bytes: &mut [u8]) -> Result<(), CallFailure> {
    // SAFETY: the kernel writes as many bytes as there are.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if count == bytes.len().cast_signed() {
        Ok(())
    } else {
        Err(CallFailure::last("random numbers"))
    }
}

impl ProcessFlows {
    pub(crate) fn set_default(&self, text: &str) -> Result<(), CallFailure> {
        self.state().default = Some(controller(text)?);
        Ok(())
    }

    pub(crate) fn set_for(&self, fd: c_int, text: &str) -> Result<(), CallFailure> {
        let place = DescriptorFile::of(fd)?;
        if number_option(fd, libc::SOL_SOCKET, libc::SO_TYPE).is_none() {
            return Err(CallFailure::last("not a socket"));
        }
        let controller = controller(text)?;
        let mut state = self.state();
        if state.flows.contains_key(&place) {
            let text = "the connection is under a controller already";
            return Err(CallFailure::new(libc::EISCONN, text));
        }
        state.clean();
        state.chosen.insert(place, controller);
        Ok(())
    }

    /// Puts a connection under the controller of `listener`, or of the socket itself.
    pub(crate) fn take_over(&self, fd: c_int, listener: Option<c_int>) -> Result<(), CallFailure> {
        if reserve::is_in_use() {
            return Err(CallFailure::new(libc::ENOMEM, "out of memory, left as it is"));
        }
        let setup =
            |error: io::Error| CallFailure::from_io("no controller for the connection", &error);
        let chosen = DescriptorFile::of(listener.unwrap_or(fd)).ok();
        let mut options = FlowOptions::new(self.controller(chosen)?);
        let [local, peer] =
            [NameSide::Own, NameSide::Peer].map(|side| SocketName::of(fd, side)?.internet());
        let (Some(local), Some(peer)) = (local, peer) else {
            return Err(CallFailure::new(libc::EOPNOTSUPP, "not a TCP connection, left as it is"));
        };
        let flow = self.next_flow.fetch_add(1, Ordering::Relaxed);
        options.seed = flow;
        let token = token().ok_or_else(|| CallFailure::new(libc::EIO, "no token"))?;
        let name = FlowName { flow, owner: Owner::Process, not_awaited: false, local, peer };
        let (near, far) = UnixStream::pair().map_err(setup)?;
        bind(&far, &name.encode(token)).map_err(setup)?;
        copy_timeouts(fd, near.as_raw_fd());
        let [flags, status] = [libc::F_GETFD, libc::F_GETFL].map(|command| control(fd, command, 0));
        if status & libc::O_NONBLOCK != 0 {
            near.set_nonblocking(true).map_err(setup)?;
        }
        let tcp = Arc::new(duplicate(fd).map_err(setup)?);
        let adopted = self.engine.adopt(tcp.clone(), OwnedFd::from(far), &options);
        let handle = adopted.map_err(|error| {
            // The engine sets flags that the program's descriptor shares.
            control(fd, libc::F_SETFL, status);
            CallFailure::new(libc::ENOBUFS, error.to_string())
        })?;
        let kept_flags = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
        // SAFETY: the program handed the descriptor to us for this.
        while unsafe { libc::dup3(near.as_raw_fd(), fd, kept_flags) } < 0 {
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) {
                return Err(setup(error));
            }
        }
        let mut state = self.state();
        state.clean();
        if listener.is_none()
            && let Some(place) = chosen
        {
            state.chosen.remove(&place);
        }
        state.flows.insert(DescriptorFile::of(fd)?, ProcessFlow { number: flow, handle, tcp });
        Ok(())
    }

    fn controller(&self, place: Option<DescriptorFile>) -> Result<ControllerSpec, CallFailure> {
        let state = self.state();
        let chosen = place.and_then(|place| state.chosen.get(&place)).or(state.default.as_ref());
        chosen.cloned().map_or_else(|| controller(DEFAULT_CONTROLLER), Ok)
    }

    pub(crate) fn statistics(&self, fd: c_int) -> Result<FlowStats, CallFailure> {
        let place = DescriptorFile::of(fd)?;
        let state = self.state();
        let flow = state.flows.get(&place).ok_or_else(|| {
            CallFailure::new(
                libc::ENOENT,
                "the connection is not under a controller of this process",
            )
        })?;
        Ok(flow.handle.stats())
    }

    pub(crate) fn close(&self, fd: c_int, timeout: Option<Duration>) -> Result<(), CallFailure> {
        let place = DescriptorFile::of(fd)?;
        let flow = self.state().flows.remove(&place);
        // SAFETY: the program gives the descriptor up.
        if unsafe { libc::close(fd) } < 0 && flow.is_none() {
            return Err(CallFailure::last("close"));
        }
        // What is not under a controller, the kernel delivers.
        flow.map_or(Ok(()), |flow| flow.finish(timeout))
    }

    fn state(&self) -> MutexGuard<'_, FlowTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlowTable {
    /// Forgets descriptors that were closed by other means than `alcc_close`. Each time half of
    /// the entries are new, so that it costs little and there are never many.
    fn clean(&mut self) {
        let count = self.flows.len() + self.chosen.len();
        if count < self.clean_at {
            return;
        }
        self.flows.retain(|place, _| place.is_current());
        self.chosen.retain(|place, _| place.is_current());
        self.clean_at = 2 * (self.flows.len() + self.chosen.len()).max(32);
    }
}

impl DescriptorFile {
    fn of(fd: c_int) -> Result<Self, CallFailure> {
        let mut facts = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the kernel writes to `facts`.
        if unsafe { libc::fstat(fd, facts.as_mut_ptr()) } < 0 {
            return Err(CallFailure::last("the descriptor"));
        }
        // SAFETY: it was written, and is valid for any bytes.
        let facts = unsafe { facts.assume_init() };
        Ok(Self { fd, device: facts.st_dev, inode: facts.st_ino })
    }

    fn is_current(&self) -> bool {
        Self::of(self.fd).is_ok_and(|now| now == *self)
    }
}

// States of a TCP connection.
const FIN_WAIT_2: u8 = 5;
const CLOSE: u8 = 7;

/// How long the engine has to say how a connection ended that TCP calls closed.
const VERDICT: Duration = Duration::from_millis(200);

impl ProcessFlow {
    /// Waits until the peer has acknowledged everything, our end included.
    fn finish(&self, timeout: Option<Duration>) -> Result<(), CallFailure> {
        const STEP: Duration = Duration::from_millis(5);
        let started = Instant::now();
        let mut closed: Option<Instant> = None;
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            match self.handle.wait(left.unwrap_or(STEP).min(STEP)) {
                Some(FlowOutcome::Finished) => return Ok(()),
                Some(FlowOutcome::Failed(number)) => return Err(ended(number)),
                Some(FlowOutcome::Alcc(_)) => return Err(ended(libc::EPROTO)),
                None => {}
            }
            match tcp_state(&self.tcp) {
                Some(FIN_WAIT_2) => return Ok(()),
                Some(CLOSE) | None => {
                    if closed.get_or_insert_with(Instant::now).elapsed() >= VERDICT {
                        let fd = self.tcp.as_raw_fd();
                        return match number_option(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
                            Some(0) | None => Ok(()),
                            Some(number) => Err(ended(number)),
                        };
                    }
                }
                Some(_) => {}
            }
            if left == Some(Duration::ZERO) {
                let text = "not everything was acknowledged in time";
                return Err(CallFailure::new(libc::ETIMEDOUT, text));
            }
        }
    }
}

fn ended(number: c_int) -> CallFailure {
    CallFailure::from_io("the connection ended", &io::Error::from_raw_os_error(number))
}

fn controller(text: &str) -> Result<ControllerSpec, CallFailure> {
    let parsed =
        ControllerSpec::parse(text, &mut |name| read(name).map_err(|e| format!("{name}: {e}")));
    parsed.map_err(|error| CallFailure::new(libc::EINVAL, error.to_string()))
}

fn read(name: &str) -> io::Result<Vec<u8>> {
    let file = File::open(name)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("too large"));
    }
    Ok(bytes)
}

/// Refuses sockets whose connection would be made later.
pub(crate) fn must_block(fd: c_int) -> Result<(), CallFailure> {
    let status = control(fd, libc::F_GETFL, 0);
    if status < 0 {
        return Err(CallFailure::last("the descriptor"));
    }
    if status & libc::O_NONBLOCK != 0 {
        let text = "alcc_connect needs a socket that blocks; set O_NONBLOCK after it";
        return Err(CallFailure::new(libc::EOPNOTSUPP, text));
    }
    Ok(())
}

fn control(fd: c_int, command: c_int, argument: c_int) -> c_int {
    // SAFETY: numbers only.
    unsafe { libc::fcntl(fd, command, argument) }
}

fn duplicate(fd: c_int) -> io::Result<OwnedFd> {
    let copy = control(fd, libc::F_DUPFD_CLOEXEC, 0);
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new, and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn bind(socket: &UnixStream, name: &[u8]) -> io::Result<()> {
    let too_long = || io::Error::from_raw_os_error(libc::ENAMETOOLONG);
    let (address, len) = abstract_address(name, &[]).ok_or_else(too_long)?;
    // SAFETY: the address is as long as is said.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How long reads and writes wait is the program's choice, perhaps made before. Without it, they
/// wait.
fn copy_timeouts(from: c_int, to: c_int) {
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let mut value = [0_u8; 16];
        let mut len = value.len() as libc::socklen_t;
        let place = value.as_mut_ptr().cast();
        // SAFETY: the kernel writes at most `len` bytes.
        if unsafe { libc::getsockopt(from, libc::SOL_SOCKET, name, place, &mut len) } == 0 {
            // SAFETY: the kernel reads the bytes that it wrote.
            unsafe { libc::setsockopt(to, libc::SOL_SOCKET, name, value.as_ptr().cast(), len) };
        }
    }
}

fn tcp_state(tcp: &OwnedFd) -> Option<u8> {
    let mut state = [0_u8; 1];
    let mut len: libc::socklen_t = 1;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    let place = state.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes: the state comes first.
    let result = unsafe { libc::getsockopt(tcp.as_raw_fd(), level, name, place, &mut len) };
    (result == 0).then_some(state[0])
}
