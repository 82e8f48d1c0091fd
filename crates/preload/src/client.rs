//! Talking to the launcher.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use cellpace_control::message::{Answer, Ask, AskOutcome};
use cellpace_control::{FlowName, Owner};
use libc::c_int;

use crate::alcc;
use crate::config::{PreloadConfig, config};
use crate::control_channel::{ControlChannel, LauncherFailure, PATIENCE_MS};
use crate::records::{drop_record, is_answered, peek, send};
use crate::sys::{Fd, Lent, NameSide, SocketName, copy_to, now_ms, pause, retry_until, unread};

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
    let (connecting, unawaited) = (false, false);
    hand_over(Ask::Adopt { nonblocking, outgoing, connecting, unawaited, descriptor }, tcp)
}

/// Hands a TCP socket over that is being connected. The application's end cannot be written to
/// until it is, or until that has failed.
pub(crate) fn adopt_opening(tcp: c_int) -> Option<Fd> {
    let descriptor = tcp.cast_unsigned();
    let [nonblocking, outgoing, connecting] = [true; 3];
    let ask = Ask::Adopt { nonblocking, outgoing, connecting, unawaited: false, descriptor };
    hand_over(ask, tcp)
}

/// Each worker of the launcher gets its share; one that is full has the next one asked.
fn hand_over(what: Ask, tcp: c_int) -> Option<Fd> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let workers = config()?.workers;
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    for index in 0..workers {
        match ask(first.wrapping_add(index) % workers, what, tcp) {
            LauncherReply::Done(_, fd) => return Some(fd),
            LauncherReply::Stays => return None,
            LauncherReply::None => {}
        }
    }
    None
}

/// Borrows the TCP socket of a flow, whose application's end `fd` is; `linger` says that it is for
/// `SO_LINGER`.
pub(crate) fn fetch(flow: &FlowName, fd: c_int, linger: bool) -> Option<Lent> {
    match flow.owner {
        Owner::Launcher => {
            let workers = u64::from(config()?.workers);
            let worker = (flow.flow.checked_sub(1)? % workers) as u32;
            match ask(worker, Ask::Fetch { flow: flow.flow, linger }, fd) {
                LauncherReply::Done(queued, tcp) => Some(Lent { tcp, queued }),
                LauncherReply::Stays | LauncherReply::None => None,
            }
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

/// What came of a question.
enum LauncherReply {
    /// Bytes that wait in front of TCP, and a descriptor.
    Done(u64, Fd),
    /// The program goes on with the TCP socket, which is under control or about to be.
    Stays,
    /// Nothing: refused, or nobody answers.
    None,
}

/// Asks a worker of the launcher, which gets a descriptor and sends one.
fn ask(worker: u32, ask: Ask, fd: c_int) -> LauncherReply {
    let Some(config) = config() else { return LauncherReply::None };
    let now = now_ms();
    if GONE.load(Ordering::Relaxed) || now < AWAY_UNTIL.load(Ordering::Relaxed) {
        return LauncherReply::None;
    }
    let until = now + PATIENCE_MS;
    let kept = ControlChannel::kept(worker).and_then(|kept| match unawaited(&kept, ask) {
        Some(ask) => tell(kept, config, ask, fd),
        None => exchange(kept, config, ask, fd, until),
    });
    if let Some(reply) = kept {
        return reply;
    }
    if now_ms() >= until {
        return leave_alone();
    }
    // None was kept, or the launcher closed it to have the place.
    match ControlChannel::open(config, worker, until) {
        Ok(channel) => exchange(channel, config, ask, fd, until).unwrap_or(LauncherReply::None),
        Err(LauncherFailure::Now) if now_ms() >= until => leave_alone(),
        Err(LauncherFailure::Now) => LauncherReply::None,
        Err(LauncherFailure::Gone) => {
            GONE.store(true, Ordering::Relaxed);
            LauncherReply::None
        }
    }
}

/// The same question without an answer, where none is needed: connections stay with the program. Not
/// while the launcher has much to read: if it was stopped, it keeps what it is sent, and who waits for an
/// answer notices.
fn unawaited(channel: &ControlChannel, ask: Ask) -> Option<Ask> {
    /// Some twenty questions: the kernel counts the memory that they take.
    const MUCH_UNREAD: c_int = 16 << 10;
    let Ask::Adopt { nonblocking, outgoing, connecting: false, descriptor, .. } = ask else {
        return None;
    };
    let (connecting, unawaited) = (false, true);
    let may_pass = channel.stays && unread(channel.socket.raw()) < MUCH_UNREAD;
    may_pass.then_some(Ask::Adopt { nonblocking, outgoing, connecting, unawaited, descriptor })
}

/// A question that has no answer.
fn tell(
    channel: ControlChannel,
    config: &PreloadConfig,
    ask: Ask,
    fd: c_int,
) -> Option<LauncherReply> {
    send(&channel.socket, &channel.session.request(&config.token, ask), Some(fd))?;
    channel.keep();
    Some(LauncherReply::Stays)
}

/// One question and its answer; the channel is kept for the next.
fn exchange(
    mut channel: ControlChannel,
    config: &PreloadConfig,
    ask: Ask,
    fd: c_int,
    until: u64,
) -> Option<LauncherReply> {
    // The launcher's descriptor needs a place. Without one it would be lost, and the connection with
    // it, which is the launcher's then.
    let Some(place) = copy_to(&channel.socket, 0) else {
        channel.keep();
        return Some(LauncherReply::None);
    };
    send(&channel.socket, &channel.session.request(&config.token, ask), Some(fd))?;
    let is_in_time = retry_until(until, || is_answered(&channel.socket)).is_some();
    if !is_in_time {
        // From here on the launcher sees that we gave up; but it may have answered before.
        // SAFETY: the socket is ours.
        unsafe { libc::syscall(libc::SYS_shutdown, channel.socket.raw(), libc::SHUT_RDWR) };
    }
    drop(place);
    let (answer, fd) = loop {
        match peek(&channel.socket)? {
            // Another thread was faster.
            (Answer { outcome: AskOutcome::Done, .. }, None) if now_ms() < until => pause(),
            answered => break answered,
        }
    };
    if is_in_time {
        drop_record(&channel.socket);
        channel.stays = answer.outcome == AskOutcome::Stays;
        channel.keep();
    }
    Some(reply(answer, fd))
}

fn reply(answer: Answer, fd: Option<Fd>) -> LauncherReply {
    match (answer.outcome, fd) {
        (AskOutcome::Done, Some(fd)) => LauncherReply::Done(answer.queued, fd),
        (AskOutcome::Stays, _) => LauncherReply::Stays,
        _ => LauncherReply::None,
    }
}

/// Lets the launcher alone for a while, in which connections stay as they are.
fn leave_alone() -> LauncherReply {
    AWAY_UNTIL.store(now_ms() + PAUSE_MS, Ordering::Relaxed);
    LauncherReply::None
}
