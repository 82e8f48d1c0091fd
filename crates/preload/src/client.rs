//! Talking to the launcher.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use cellpace_control::message::{Answer, Ask};
use cellpace_control::{FlowName, Owner};
use libc::c_int;

use crate::alcc;
use crate::config::{PreloadConfig, config};
use crate::control_channel::{ControlChannel, LauncherFailure, PATIENCE_MS};
use crate::records::{receive, send};
use crate::sys::{Fd, Lent, NameSide, SocketName, now_ms, retry_until};

/// How long the launcher is left alone that did not answer.
const PAUSE_MS: u64 = 30_000;

/// When to ask again.
static AWAY_UNTIL: AtomicU64 = AtomicU64::new(0);
/// The launcher has ended. Anybody may bind its name from now on, so nobody is asked any more.
static GONE: AtomicBool = AtomicBool::new(false);

/// Hands a TCP socket to the launcher. With success it is the launcher's, and the application's
/// end is returned; otherwise it is as it was.
pub(crate) fn adopt(tcp: c_int, nonblocking: bool, outgoing: bool) -> Option<Fd> {
    let descriptor = tcp.cast_unsigned();
    hand_over(Ask::Adopt { nonblocking, outgoing, connecting: false, descriptor }, tcp)
}

/// Hands a TCP socket over that is being connected. The application's end cannot be written to
/// until it is, or until that has failed.
pub(crate) fn adopt_opening(tcp: c_int) -> Option<Fd> {
    let descriptor = tcp.cast_unsigned();
    let ask = Ask::Adopt { nonblocking: true, outgoing: true, connecting: true, descriptor };
    hand_over(ask, tcp)
}

/// Each worker of the launcher gets its share; one that is full has the next one asked.
fn hand_over(what: Ask, tcp: c_int) -> Option<Fd> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let workers = config()?.workers;
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut asked = (0..workers).map(|index| first.wrapping_add(index) % workers);
    asked.find_map(|worker| ask(worker, what, tcp).map(|(_, fd)| fd))
}

/// Borrows the TCP socket of a flow, whose application's end `fd` is; `linger` says that it is for
/// `SO_LINGER`.
pub(crate) fn fetch(flow: &FlowName, fd: c_int, linger: bool) -> Option<Lent> {
    match flow.owner {
        Owner::Launcher => {
            let workers = u64::from(config()?.workers);
            let worker = (flow.flow.checked_sub(1)? % workers) as u32;
            let (answer, tcp) = ask(worker, Ask::Fetch { flow: flow.flow, linger }, fd)?;
            Some(Lent { tcp, queued: answer.queued })
        }
        Owner::Process => alcc::lend(flow.flow, linger),
    }
}

/// The flow whose application's end a descriptor is.
pub(crate) fn flow_of(fd: c_int) -> Option<FlowName> {
    let tokens = [config().map(|config| &config.token), alcc::token()];
    if tokens == [None, None] {
        return None;
    }
    let peer = SocketName::of(fd, NameSide::Peer)?;
    let name = peer.abstract_name()?;
    tokens.into_iter().flatten().find_map(|token| FlowName::decode(name, token))
}

/// Asks a worker of the launcher, which gets a descriptor and sends one.
fn ask(worker: u32, ask: Ask, fd: c_int) -> Option<(Answer, Fd)> {
    let config = config()?;
    let now = now_ms();
    if GONE.load(Ordering::Relaxed) || now < AWAY_UNTIL.load(Ordering::Relaxed) {
        return None;
    }
    let until = now + PATIENCE_MS;
    let kept = ControlChannel::kept(worker).and_then(|kept| exchange(kept, config, ask, fd, until));
    let (answer, fd) = match kept {
        Some(answered) => answered,
        None if now_ms() >= until => return leave_alone(),
        // None was kept, or the launcher closed it to have the place.
        None => match ControlChannel::open(config, worker, until) {
            Ok(channel) => exchange(channel, config, ask, fd, until)?,
            Err(LauncherFailure::Now) if now_ms() >= until => return leave_alone(),
            Err(LauncherFailure::Now) => return None,
            Err(LauncherFailure::Gone) => {
                GONE.store(true, Ordering::Relaxed);
                return None;
            }
        },
    };
    if answer.done { fd.map(|fd| (answer, fd)) } else { None }
}

/// One question and its answer; the channel is kept for the next.
fn exchange(
    channel: ControlChannel,
    config: &PreloadConfig,
    ask: Ask,
    fd: c_int,
    until: u64,
) -> Option<(Answer, Option<Fd>)> {
    send(&channel.socket, &channel.session.request(&config.token, ask), Some(fd))?;
    let answered = retry_until(until, || receive(&channel.socket, 0));
    if answered.is_some() {
        channel.keep();
        return answered;
    }
    // From here on the launcher sees that we gave up; but it may have answered before.
    // SAFETY: the socket is ours.
    unsafe { libc::syscall(libc::SYS_shutdown, channel.socket.raw(), libc::SHUT_RDWR) };
    receive(&channel.socket, libc::MSG_DONTWAIT)
}

/// Lets the launcher alone for a while, in which connections stay as they are.
fn leave_alone<T>() -> Option<T> {
    AWAY_UNTIL.store(now_ms() + PAUSE_MS, Ordering::Relaxed);
    None
}
