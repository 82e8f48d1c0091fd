//! Connections of programs that need no library: the kernel announces them, and the kernel driver
//! takes them over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cellpace_cc::ControllerSpec;
use cellpace_kernel::attach::{Announced, Attachment, Missed};
use cellpace_tcp::{FlowHandle, KernelConnection, KernelHolder, RecordedSocket, Recorder, Trial};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::finder::Finder;
use crate::{AdoptedConnection, AttacherError, ClosedConnection, ConnectionWatcher, PlainReason};

/// How often ended connections are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Minimum time between two warnings about connections that were not taken over.
const REMIND: Duration = Duration::from_secs(1);

/// What the announced connections of an arm get.
#[derive(Debug, Clone)]
pub enum AttachedArm {
    /// TCP as it is.
    Plain,
    /// This controller.
    Controlled(KernelHolder, ControllerSpec),
}

/// What announced connections get.
#[derive(Debug)]
pub struct AttachPlan {
    /// In the order of the attachment's.
    pub arms: Vec<AttachedArm>,
    /// Which of them, where that changes.
    pub trial: Option<Trial>,
    /// Records the connections of an experiment.
    pub recorder: Option<Arc<Recorder>>,
}

/// Takes over the connections that an attachment announces.
pub struct Attacher<W> {
    plan: AttachPlan,
    /// The arm that was chosen for all new connections, if one was.
    chosen: Option<usize>,
    /// For the kernel driver alone, whose sockets are kicked.
    finders: Vec<Finder>,
    attachment: Attachment,
    /// Seed of the first connection; each has the next one.
    seed: u64,
    watcher: W,
    warn: fn(&str),
    flows: Vec<AttachedFlow>,
    /// Connections up to now.
    count: u64,
    look_at: Instant,
    remind_at: Instant,
    missed: Missed,
    /// Connections up to now that were not recorded.
    unseen: u64,
}

/// A connection under control.
struct AttachedFlow {
    connection: AdoptedConnection,
    handle: FlowHandle,
    since: Instant,
}

impl<W: ConnectionWatcher> Attacher<W> {
    /// Begins to take over what `attachment` announces. Warnings for people go to `warn`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        plan: AttachPlan,
        attachment: Attachment,
        seed: u64,
        watcher: W,
        warn: fn(&str),
    ) -> Result<Self, AttacherError> {
        let drivers = plan.arms.iter().filter_map(|arm| match arm {
            AttachedArm::Controlled(KernelHolder::Driver(driver), _) => Some(driver),
            AttachedArm::Controlled(KernelHolder::Native(_), _) | AttachedArm::Plain => None,
        });
        let finders = drivers.map(|driver| Finder::start(driver.clone(), warn));
        let finders = finders.collect::<Result<_, _>>().map_err(AttacherError::Thread)?;
        let now = Instant::now();
        let chosen = None;
        let mut attacher = Self {
            plan,
            chosen,
            finders,
            attachment,
            seed,
            watcher,
            warn,
            flows: Vec::new(),
            count: 0,
            look_at: now,
            remind_at: now + REMIND,
            missed: Missed::default(),
            unseen: 0,
        };
        attacher.choose()?;
        Ok(attacher)
    }

    /// Waits for connections, a tenth of a second at most, and takes them over; reports those that
    /// have ended.
    ///
    /// # Errors
    /// When the kernel driver is gone or takes no connection.
    pub fn turn(&mut self) -> Result<(), AttacherError> {
        self.wait();
        self.adopt()?;
        self.choose()?;
        let now = Instant::now();
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + LOOK;
        self.report_ended();
        if now >= self.remind_at {
            self.remind_at = now + REMIND;
            self.warn_of_missed();
            self.warn_of_unseen();
        }
        if self.is_running() { Ok(()) } else { Err(AttacherError::Gone) }
    }

    fn is_running(&self) -> bool {
        self.plan.arms.iter().all(|arm| match arm {
            AttachedArm::Controlled(holder, _) => holder.is_running(),
            AttachedArm::Plain => true,
        })
    }

    /// Has new connections get the arm of now.
    fn choose(&mut self) -> Result<(), AttacherError> {
        let arm = self.plan.trial.as_ref().map_or(Some(0), Trial::arm_of_now);
        if arm != self.chosen
            && let Some(arm) = arm
        {
            self.attachment.choose(arm).map_err(AttacherError::Choose)?;
        }
        self.chosen = arm;
        Ok(())
    }

    fn wait(&self) {
        let announcements = self.attachment.as_fd();
        let mut fds = [PollFd::new(&announcements, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
        // Interrupted or not: what is not reported now is reported the next time.
        let _ = poll(&mut fds, Some(&timeout));
    }

    fn adopt(&mut self) -> Result<(), AttacherError> {
        let mut new = Vec::new();
        self.attachment.drain(|announced| new.push(announced));
        for announced in new {
            self.draw_for_client(&announced)?;
            let Announced { cookie, local, peer, mss, overhead, acked, opened, arm, .. } =
                announced;
            let Some(AttachedArm::Controlled(holder, cc)) = self.plan.arms.get(arm) else {
                self.record(&announced, "plain");
                continue;
            };
            self.count += 1;
            let mss = mss.max(1);
            let kernel = KernelConnection { cookie, mss, overhead, acked, local, peer };
            let seed = self.seed.wrapping_add(self.count - 1);
            let handle = holder.adopt(&kernel, cc, seed).map_err(AttacherError::Adopt)?;
            self.record(&announced, handle.driver().name());
            let connection = AdoptedConnection { flow: self.count, outgoing: opened, local, peer };
            self.watcher.opened(&connection, &handle);
            self.flows.push(AttachedFlow { connection, handle, since: Instant::now() });
        }
        Ok(())
    }

    /// Draws the arm of a client's later connections at its first one, which has the first arm and counts for
    /// none: an arm takes a while from here to the kernel.
    fn draw_for_client(&self, announced: &Announced) -> Result<(), AttacherError> {
        let client = announced.peer.ip();
        let trial = self.plan.trial.as_ref().filter(|_| !announced.is_drawn);
        let Some(arm) = trial.and_then(|trial| trial.arm_of_client(client)) else { return Ok(()) };
        self.attachment.put_client(client, arm).map_err(AttacherError::Choose)
    }

    fn record(&self, announced: &Announced, driver: &'static str) {
        let AttachPlan { trial: Some(trial), recorder: Some(recorder), .. } = &self.plan else {
            return;
        };
        if !announced.is_drawn {
            return;
        }
        let Announced { cookie, local, peer, opened: outgoing, arm, .. } = *announced;
        let part = trial.part_with(arm, peer);
        recorder.begin(RecordedSocket { cookie, local, peer, outgoing, driver }, part);
    }

    fn report_ended(&mut self) {
        let Self { flows, watcher, .. } = self;
        watcher.look();
        flows.retain(|flow| {
            let is_open = flow.handle.outcome().is_none();
            if !is_open {
                watcher.closed(flow.end());
            }
            is_open
        });
    }

    /// Warns about connections that were not taken over since the last call.
    fn warn_of_missed(&mut self) {
        // It worked a moment ago, and is for information only.
        let Ok(now) = self.attachment.missed() else { return };
        let before = std::mem::replace(&mut self.missed, now);
        for (now, before, reason, why) in [
            (now.unannounced, before.unannounced, PlainReason::Late, "too many at once"),
            (now.full, before.full, PlainReason::Limit, "too many sockets are under control"),
            (now.refused, before.refused, PlainReason::Driver, "the kernel driver was removed"),
        ] {
            if now > before {
                self.watcher.missed(reason, now - before);
                (self.warn)(&format!("{} connections stay plain: {why}", now - before));
            }
        }
    }

    /// Warns about connections that the recorder did not find since the last call.
    fn warn_of_unseen(&mut self) {
        let now = self.plan.recorder.as_ref().map_or(0, |recorder| recorder.unseen());
        let before = std::mem::replace(&mut self.unseen, now);
        if now > before {
            (self.warn)(&format!(
                "{} connections of other network namespaces are in the experiment and not recorded: run \
                 `attach` in theirs",
                now - before
            ));
        }
    }

    /// Takes no more connections and leaves those that are open to themselves. Returns how many
    /// those are.
    pub fn end(mut self) -> usize {
        drop(self.attachment);
        let mut open = 0;
        for flow in &self.flows {
            let end = flow.end();
            open += usize::from(end.outcome.is_none());
            self.watcher.closed(end);
        }
        // It has the other half of the driver, which ends with both.
        drop(self.finders);
        open
    }
}

impl AttachedFlow {
    fn end(&self) -> ClosedConnection {
        ClosedConnection {
            connection: self.connection,
            age: self.since.elapsed(),
            stats: self.handle.stats(),
            outcome: self.handle.outcome(),
            cut: false,
            controller: self.handle.controller().clone(),
            driver: self.handle.driver(),
            driver_reason: None,
            controller_failure: self.handle.controller_failure(),
        }
    }
}
