//! The thread that serves all flows of the kernel driver.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellpace_base::{Span, Time};
use cellpace_kernel::{Kernel, KernelRecord, RecordKind};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::flow::{FlowOutcome, SharedFlow};
use crate::kernel::batching::AckBatching;
use crate::kernel::flow::KernelFlow;
use crate::kernel::remote_socket::RemoteSocket;
use crate::kernel::socket::KernelSocket;
use crate::thread::now;
use crate::timers::TimerQueue;

/// The kernel takes a driver whose heartbeat stops for dead after a second.
const BEAT: Span = Span::from_millis(200);

/// The kernel need not wake the thread in the last moments before it wakes up by itself.
const ROUSE: Span = Span::from_micros(50);

/// Records read in one go; heartbeats and timers come between.
const BATCH: usize = 4096;

/// Figures are at most this old, while acks come.
const PUBLISH: Span = Span::from_millis(5);

/// What the thread and its clients share.
pub(crate) struct DriverInbox {
    wake: OwnedFd,
    commands: Mutex<DriverCommands>,
    /// Cookies of sockets that want to be kicked and cannot be.
    unreachable: Mutex<BTreeSet<u64>>,
}

/// What waits for the thread.
#[derive(Default)]
struct DriverCommands {
    waiting: Vec<DriverCommand>,
    /// It was woken since it last looked.
    woken: bool,
}

/// What the thread is asked to do.
pub(crate) enum DriverCommand {
    Add(Box<NewKernelFlow>),
    SetRemote(u64, RemoteSocket),
    Publish(u64),
    Stop,
}

/// A flow on its way to the thread.
pub(crate) struct NewKernelFlow {
    pub(crate) flow: KernelFlow,
    pub(crate) socket: Arc<KernelSocket>,
    pub(crate) shared: Arc<SharedFlow>,
    /// Keeps the connection from ending before it is under our control, after which its end is
    /// reported; none where it is already.
    pub(crate) kept: Option<OwnedFd>,
    /// A program in the kernel has put it under our control, and it may have ended since.
    pub(crate) may_be_over: bool,
}

impl DriverInbox {
    pub(crate) fn new() -> Result<Self, Errno> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { wake, commands: Mutex::default(), unreachable: Mutex::default() })
    }

    fn commands(&self) -> MutexGuard<'_, DriverCommands> {
        // Nothing that panics happens while it is held.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unreachable(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // As above.
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread do something at once.
    pub(crate) fn command(&self, command: DriverCommand) {
        let mut commands = self.commands();
        commands.waiting.push(command);
        let woken = std::mem::replace(&mut commands.woken, true);
        // The thread is not to wake up only to wait for the lock.
        drop(commands);
        if !woken {
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Has it do something before it looks at the next record.
    pub(crate) fn command_with_next_record(&self, command: DriverCommand) {
        self.commands().waiting.push(command);
    }

    fn take_commands(&self) -> Vec<DriverCommand> {
        let mut commands = self.commands();
        commands.woken = false;
        std::mem::take(&mut commands.waiting)
    }
}

/// A flow in the thread.
struct KernelFlowSlot {
    flow: KernelFlow,
    socket: Arc<KernelSocket>,
    shared: Arc<SharedFlow>,
    /// Its socket is among the unreachable ones.
    is_unreachable: bool,
    /// When it wants to be called, as it stands in the list of timers.
    timer: Option<Time>,
    published_at: Time,
}

/// The thread's own state.
pub(crate) struct DriverThread {
    kernel: Kernel,
    inbox: Arc<DriverInbox>,
    flows: HashMap<u64, KernelFlowSlot>,
    timers: TimerQueue<u64>,
    /// Records of the batch at hand.
    records: Vec<KernelRecord>,
    /// Sockets that the batch has records of.
    touched: Vec<u64>,
    batching: AckBatching,
    /// CLOCK_MONOTONIC, in which records have their times, ahead of the drivers' clock in nanoseconds.
    ahead: u64,
}

impl DriverThread {
    pub(crate) fn new(kernel: Kernel, inbox: Arc<DriverInbox>) -> Self {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let nanos = clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64;
        Self {
            kernel,
            inbox,
            flows: HashMap::new(),
            timers: TimerQueue::default(),
            records: Vec::new(),
            touched: Vec::new(),
            batching: AckBatching::new(now()),
            ahead: nanos - now().as_nanos(),
        }
    }

    pub(crate) fn run(mut self) {
        let mut beat_at = Time::ZERO;
        loop {
            let time = now();
            if time >= beat_at {
                beat_at = time + BEAT;
                if self.kernel.beat().is_err() {
                    return self.give_up();
                }
            }
            if !self.take_commands() || !self.read(time) {
                return;
            }
            self.serve_timers(now());
            self.wait(beat_at);
        }
    }

    /// The kernel driver was removed, or we were taken for dead: the sockets continue without us.
    fn give_up(&mut self) {
        for slot in self.flows.values() {
            slot.shared.end(FlowOutcome::Failed(libc::ENODEV));
        }
        for command in self.inbox.take_commands() {
            if let DriverCommand::Add(new) = command {
                new.shared.end(FlowOutcome::Failed(libc::ENODEV));
            }
        }
    }

    /// Does what clients asked for. Returns false when the thread is to end.
    fn take_commands(&mut self) -> bool {
        for command in self.inbox.take_commands() {
            match command {
                DriverCommand::Add(new) => self.add(*new),
                DriverCommand::SetRemote(cookie, remote) => self.set_remote(cookie, remote),
                DriverCommand::Publish(cookie) => {
                    if let Some(slot) = self.flows.get_mut(&cookie) {
                        slot.publish(now());
                    }
                }
                DriverCommand::Stop => return false,
            }
        }
        true
    }

    fn add(&mut self, new: NewKernelFlow) {
        let NewKernelFlow { mut flow, socket, shared, kept, may_be_over } = new;
        let cookie = socket.cookie();
        // The end of a connection that closed before this is not reported any more: without this
        // question its flow would stay for ever.
        if may_be_over
            && let Some((control, _)) = flow.news(now(), false)
            && let Ok(false) = self.kernel.renew(cookie, control)
        {
            return shared.end(FlowOutcome::Finished);
        }
        // Its first acks open its window.
        self.batching.on_eager_flow(now());
        let (is_unreachable, timer, published_at) = (false, None, Time::ZERO);
        let slot = KernelFlowSlot { flow, socket, shared, is_unreachable, timer, published_at };
        self.flows.insert(cookie, slot);
        self.serve(cookie, now(), false);
        // Only now: the connection is under control, so its end is reported.
        drop(kept);
    }

    fn set_remote(&mut self, cookie: u64, remote: RemoteSocket) {
        let Some(slot) = self.flows.get_mut(&cookie) else { return };
        *slot.socket.remote() = Some(remote);
        slot.flow.can_kick(true);
        if std::mem::take(&mut slot.is_unreachable) {
            self.inbox.unreachable().remove(&cookie);
        }
        self.serve(cookie, now(), false);
    }

    /// Works in the records that wait. Returns false when the thread is to end.
    fn read(&mut self, time: Time) -> bool {
        let records = &mut self.records;
        let count = self.kernel.drain(BATCH, |record| records.push(record));
        // Those of flows that came meanwhile are among them.
        if count > 0 && !self.take_commands() {
            return false;
        }
        for at in 0..self.records.len() {
            let record = self.records[at];
            self.take_record(time, &record);
        }
        self.records.clear();
        // Each flow is served once for a batch, however many acks it has in it.
        self.touched.sort_unstable();
        self.touched.dedup();
        let mut shortest_rtt = Span::MAX;
        for at in 0..self.touched.len() {
            let cookie = self.touched[at];
            self.serve(cookie, time, false);
            let Some(slot) = self.flows.get(&cookie) else { continue };
            shortest_rtt = shortest_rtt.min(slot.flow.min_rtt().unwrap_or(shortest_rtt));
            self.batching.on_plan(time, slot.flow.acks_may_wait());
        }
        self.touched.clear();
        self.batching.plan(time, count, shortest_rtt);
        true
    }

    fn take_record(&mut self, time: Time, record: &KernelRecord) {
        let Some(slot) = self.flows.get_mut(&record.cookie) else { return };
        if record.kind == RecordKind::Release {
            slot.flow.on_release(record);
            return self.remove(record.cookie);
        }
        // When the kernel worked the ack in, not when this thread read it: pauses must not look
        // like RTT.
        let when = Time::from_nanos(record.time_ns.saturating_sub(self.ahead));
        let has_opened = slot.flow.on_record(when.min(time), record);
        // In slow start a window leaves as it grows: several acks together would make a burst of
        // their packets, all sent with the largest of the windows.
        if has_opened && self.batching.is_slow() {
            self.serve(record.cookie, time, true);
        }
        self.touched.push(record.cookie);
    }

    fn serve_timers(&mut self, time: Time) {
        while let Some(cookie) = self.timers.pop_due(time) {
            if let Some(slot) = self.flows.get_mut(&cookie) {
                // It has left the list of timers, so that `serve` sets it anew even at the same
                // time.
                slot.timer = None;
                if slot.flow.is_behind(time) {
                    slot.kick();
                }
                slot.flow.on_timer(time);
                self.serve(cookie, time, false);
            }
        }
    }

    /// Passes what is new to the kernel, has TCP send, `at_once` or with the next ack where that is
    /// near, and notes when the flow wants to be called.
    fn serve(&mut self, cookie: u64, time: Time, at_once: bool) {
        let Some(slot) = self.flows.get_mut(&cookie) else { return };
        if let Some((control, kick)) = slot.flow.news(time, at_once) {
            // With the table full, or the driver gone, TCP goes by RFC 5681.
            let _ = self.kernel.control(cookie, control);
            if kick {
                slot.kick();
            }
        }
        if !slot.is_unreachable && slot.flow.wants_kick(time) {
            slot.is_unreachable = true;
            self.inbox.unreachable().insert(cookie);
        }
        self.timers.set(cookie, &mut slot.timer, slot.flow.next_deadline());
        if time >= slot.published_at + PUBLISH {
            slot.publish(time);
        }
    }

    fn remove(&mut self, cookie: u64) {
        let Some(mut slot) = self.flows.remove(&cookie) else { return };
        self.timers.set(cookie, &mut slot.timer, None);
        if slot.is_unreachable {
            self.inbox.unreachable().remove(&cookie);
        }
        slot.publish(now());
        slot.shared.end(match slot.shared.is_aborted() {
            true => FlowOutcome::Failed(libc::ECONNABORTED),
            false => FlowOutcome::Finished,
        });
    }

    fn wait(&self, beat_at: Time) {
        let time = now();
        let until = self.timers.first().unwrap_or(beat_at).min(beat_at);
        let for_commands = PollFd::new(&self.inbox.wake, PollFlags::IN);
        if let Some(pause_until) = self.batching.pause_until(time) {
            let wake_at = pause_until.min(until);
            self.kernel.rest_until(self.ahead + (wake_at - ROUSE).as_nanos());
            return self.sleep(&mut [for_commands], wake_at.since(time));
        }
        // A command may have ended a pause early, of which the kernel knows only the end.
        self.kernel.rest_until(0);
        let ring = self.kernel.as_fd();
        self.sleep(&mut [for_commands, PollFd::new(&ring, PollFlags::IN)], until.since(time));
    }

    /// Sleeps for `most`, or until something happens to `fds`, of which the first is for commands.
    fn sleep(&self, fds: &mut [PollFd<'_>], most: Span) {
        // Interrupted or not: what is not reported now is reported the next time.
        let _ = poll(fds, Some(&timespec(most)));
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&self.inbox.wake, &mut [0; 8]);
        }
    }
}

impl KernelFlowSlot {
    /// Has TCP send what it may now. A socket that cannot be reached any more (the program passed it
    /// on, or keeps us away) has acks alone, until its place is reported.
    fn kick(&mut self) {
        let mut remote = self.socket.remote();
        let Some(known) = &*remote else { return };
        let time = now();
        match known.kick(self.socket.cookie()) {
            Ok(left) => self.flow.on_kicked(time, left),
            Err(_) => {
                *remote = None;
                self.flow.can_kick(false);
            }
        }
    }

    fn publish(&mut self, time: Time) {
        self.published_at = time;
        self.shared.publish(time, self.flow.stats(), Some(self.flow.controller_mut()));
        if let Some(reason) = self.flow.failure() {
            self.shared.note_failure(reason);
        }
    }
}

fn timespec(span: Span) -> Timespec {
    let nanos = span.as_nanos();
    Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}
