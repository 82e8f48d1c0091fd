//! Connections of programs that need no library: the kernel announces them, and the kernel driver
//! takes them over.

use std::time::{Duration, Instant};

use cellpace_cc::ControllerSpec;
use cellpace_kernel::attach::{Announced, Attachment, Missed};
use cellpace_tcp::{FlowHandle, KernelConnection, KernelHolder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::finder::Finder;
use crate::{AdoptedConnection, AttacherError, ClosedConnection, ConnectionWatcher, PlainReason};

/// How often ended connections are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Minimum time between two warnings about connections that were not taken over.
const REMIND: Duration = Duration::from_secs(1);

/// Takes over the connections that an attachment announces.
pub struct Attacher<W> {
    driver: KernelHolder,
    /// For the kernel driver alone, whose sockets are kicked.
    finder: Option<Finder>,
    attachment: Attachment,
    cc: ControllerSpec,
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
}

/// A connection under control.
struct AttachedFlow {
    connection: AdoptedConnection,
    handle: FlowHandle,
    since: Instant,
}

impl<W: ConnectionWatcher> Attacher<W> {
    /// Begins to take over what `attachment` announces, with the controller `cc`. Warnings for
    /// people go to `warn`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        driver: KernelHolder,
        attachment: Attachment,
        cc: ControllerSpec,
        seed: u64,
        watcher: W,
        warn: fn(&str),
    ) -> Result<Self, AttacherError> {
        let finder = match &driver {
            KernelHolder::Driver(driver) => Some(Finder::start(driver.clone(), warn)),
            KernelHolder::Native(_) => None,
        };
        let finder = finder.transpose().map_err(AttacherError::Thread)?;
        let now = Instant::now();
        Ok(Self {
            driver,
            finder,
            attachment,
            cc,
            seed,
            watcher,
            warn,
            flows: Vec::new(),
            count: 0,
            look_at: now,
            remind_at: now + REMIND,
            missed: Missed::default(),
        })
    }

    /// Waits for connections, a tenth of a second at most, and takes them over; reports those that
    /// have ended.
    ///
    /// # Errors
    /// When the kernel driver is gone or takes no connection.
    pub fn turn(&mut self) -> Result<(), AttacherError> {
        self.wait();
        self.adopt()?;
        let now = Instant::now();
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + LOOK;
        self.report_ended();
        if now >= self.remind_at {
            self.remind_at = now + REMIND;
            self.warn_of_missed();
        }
        if self.driver.is_running() { Ok(()) } else { Err(AttacherError::Gone) }
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
            self.count += 1;
            let Announced { cookie, local, peer, mss, overhead, acked, opened } = announced;
            let mss = mss.max(1);
            let kernel = KernelConnection { cookie, mss, overhead, acked, local, peer };
            let seed = self.seed.wrapping_add(self.count - 1);
            let handle =
                self.driver.adopt(&kernel, &self.cc, seed).map_err(AttacherError::Adopt)?;
            let connection = AdoptedConnection { flow: self.count, outgoing: opened, local, peer };
            self.watcher.opened(&connection, &handle);
            self.flows.push(AttachedFlow { connection, handle, since: Instant::now() });
        }
        Ok(())
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
        drop(self.finder);
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
        }
    }
}
