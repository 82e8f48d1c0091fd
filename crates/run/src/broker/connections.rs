//! Connections that were taken over, until their flows have ended.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellpace_os::socket::{state_of_tcp, tcp_state};
use cellpace_tcp::{
    ArmControl, FlowControl, FlowHandle, FlowOutcome, NewFlow, ProgramSocket, RecordedSocket,
    Recorder, RemoteSocket, SocketOwner, TcpError, TrialPart, Trials,
};
use rustix::net::sockopt::{set_tcp_congestion, socket_cookie};
use rustix::process::Pid;

use super::flow_count::FlowCount;
use super::local_pair::{LendableSocket, LocalPair};
use super::watcher::{AdoptedConnection, ClosedConnection, PlainReason, SharedWatcher};

/// How often ends of flows are looked for, while there are flows.
pub(super) const REAP: Duration = Duration::from_millis(100);

/// How long flows that are cut get to reset their connections.
pub(super) const ABORT_WAIT: Duration = Duration::from_millis(500);

/// Processes that are remembered before those that have ended are forgotten.
const MAX_PROCESSES: usize = 64;

/// A worker's connections.
pub(super) struct Connections {
    trials: Trials,
    recorder: Option<Arc<Recorder>>,
    watcher: SharedWatcher,
    flows: HashMap<u64, ConnectionFlow>,
    count: Arc<FlowCount>,
    /// Processes with sockets that the kernel driver holds.
    processes: HashMap<Pid, RemoteSocket>,
    next_flow: u64,
    /// From one flow's number to the next one's.
    workers: u32,
}

/// What became of a connection.
pub(super) enum Taken {
    /// The application gets this end.
    Relayed(OwnedFd),
    /// The program goes on with the TCP socket, which is under control.
    Stays,
    /// The same, and it is in the part of a trial that is plain TCP.
    Plain,
}

struct ConnectionFlow {
    connection: AdoptedConnection,
    since: Instant,
    handle: FlowHandle,
    /// None where the program has the TCP socket.
    tcp: Option<LendableSocket>,
    /// When TCP was last asked whether it is closed.
    asked: Instant,
}

impl Connections {
    /// Returns the connections of one of `workers` workers. A flow's number identifies its worker.
    pub(super) fn new(
        worker: u32,
        workers: u32,
        trials: Trials,
        recorder: Option<Arc<Recorder>>,
        watcher: SharedWatcher,
        count: Arc<FlowCount>,
    ) -> Self {
        let next_flow = u64::from(worker) + 1;
        let (flows, processes) = (HashMap::new(), HashMap::new());
        Self { trials, recorder, watcher, flows, count, processes, next_flow, workers }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether the engine takes another flow besides `coming` ones.
    pub(super) fn has_room(&self, coming: usize) -> bool {
        self.controls().all(|control| control.has_room(coming))
    }

    /// Whether all connections are under one controller.
    pub(super) fn are_alike(&self) -> bool {
        !self.trials.is_trial()
    }

    fn controls(&self) -> impl Iterator<Item = &FlowControl> {
        self.trials.arms().iter().filter_map(|arm| match arm {
            ArmControl::Controlled(control) => Some(&**control),
            ArmControl::Plain(_) => None,
        })
    }

    /// The number of the next flow, until [`use_number`](Self::use_number).
    pub(super) fn next_number(&self) -> u64 {
        self.next_flow
    }

    pub(super) fn use_number(&mut self) {
        self.next_flow += u64::from(self.workers);
    }

    /// Puts a connection under control, unless a trial leaves it plain. Where its data are relayed, `pair`
    /// takes its place in the program.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub(super) fn take(
        &mut self,
        connection: AdoptedConnection,
        tcp: &Arc<OwnedFd>,
        owner: SocketOwner,
        pair: impl FnOnce() -> io::Result<LocalPair>,
    ) -> Result<Taken, TcpError> {
        let mut kept = None;
        let part = self.trials.draw(connection.peer);
        let flow = new_flow(&connection, tcp.clone());
        let taken = match self.trials.treatment(&part) {
            ArmControl::Plain(name) => {
                self.leave_plain(&connection, tcp, part, name.as_deref())?;
                return Ok(Taken::Plain);
            }
            ArmControl::Controlled(control) => {
                control.take(flow, ProgramSocket::Undecided, owner, || {
                    let LocalPair { application, far, tcp } = pair()?;
                    kept = Some((application, tcp));
                    Ok(far)
                })
            }
        };
        self.record(&connection, tcp, part, driver_of(&taken));
        let (application, tcp) = kept.unzip();
        self.insert(connection, Instant::now(), taken?, tcp);
        Ok(application.map_or(Taken::Stays, Taken::Relayed))
    }

    /// Puts a connection under control whose program goes on with the TCP socket.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub(super) fn take_in_place(
        &mut self,
        connection: AdoptedConnection,
        tcp: OwnedFd,
        owner: SocketOwner,
    ) -> Result<(), TcpError> {
        let part = self.trials.draw(connection.peer);
        let tcp = Arc::new(tcp);
        let flow = new_flow(&connection, tcp.clone());
        let no_pair = || Err(io::ErrorKind::Unsupported.into());
        let taken = match self.trials.treatment(&part) {
            ArmControl::Plain(name) => {
                return self.leave_plain(&connection, &tcp, part, name.as_deref());
            }
            ArmControl::Controlled(control) => {
                control.take(flow, ProgramSocket::Tcp, owner, no_pair)
            }
        };
        self.record(&connection, &tcp, part, driver_of(&taken));
        self.insert(connection, Instant::now(), taken?, None);
        Ok(())
    }

    /// What a connection gets that is not there yet; [`relay`](Self::relay) has a driver for it. `None`
    /// where a trial leaves it plain.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub(super) fn open(
        &self,
        connection: &AdoptedConnection,
        tcp: &OwnedFd,
    ) -> Result<Option<TrialPart>, TcpError> {
        let part = self.trials.draw(connection.peer);
        match self.trials.treatment(&part) {
            ArmControl::Plain(name) => {
                self.leave_plain(connection, tcp, part, name.as_deref()).map(|()| None)
            }
            ArmControl::Controlled(control) => control.check_relay().map(|()| Some(part)),
        }
    }

    /// Leaves a connection to TCP.
    ///
    /// # Errors
    /// When TCP does not get this congestion control.
    fn leave_plain(
        &self,
        connection: &AdoptedConnection,
        tcp: &OwnedFd,
        part: TrialPart,
        name: Option<&str>,
    ) -> Result<(), TcpError> {
        self.record(connection, tcp, part, "plain");
        let named = name.map_or(Ok(()), |name| set_tcp_congestion(tcp, name));
        let what = "TCP_CONGESTION";
        named.map_err(|source| TcpError::Setup { what, source: source.into() })
    }

    /// Has a connection recorded, if it is in an experiment.
    fn record(
        &self,
        connection: &AdoptedConnection,
        tcp: &OwnedFd,
        part: TrialPart,
        driver: &'static str,
    ) {
        let recorder = self.recorder.as_ref().filter(|recorder| recorder.sees(tcp));
        let (Some(recorder), Ok(cookie)) = (recorder, socket_cookie(tcp)) else { return };
        let AdoptedConnection { outgoing, local, peer, .. } = *connection;
        recorder.begin(RecordedSocket { cookie, local, peer, outgoing, driver }, part);
    }

    /// Reports a connection that stays without a controller because of an error.
    pub(super) fn note_refused(&self, connection: &AdoptedConnection, error: &TcpError) {
        let reason = PlainReason::of(error);
        let why = match error {
            TcpError::NotPlaced(why) => why.to_string(),
            _ => reason.text().to_owned(),
        };
        self.watcher.lock().stayed_plain(Some(connection), reason, &why);
    }

    /// Reports a connection for which there is no room.
    pub(super) fn note_full(&self) {
        let reason = PlainReason::Limit;
        self.watcher.lock().stayed_plain(None, reason, reason.text());
    }

    /// Relays the data of a connection whose application has its end already; `None` if that cannot be.
    pub(super) fn relay(
        &mut self,
        connection: AdoptedConnection,
        since: Instant,
        tcp: LendableSocket,
        far: OwnedFd,
        part: TrialPart,
    ) -> Option<()> {
        let ArmControl::Controlled(control) = self.trials.treatment(&part) else { return None };
        let flow = new_flow(&connection, tcp.tcp.clone());
        let owner = SocketOwner::Unknown;
        let handle = control.take(flow, ProgramSocket::Local, owner, || Ok(far)).ok()?;
        self.record(&connection, &tcp.tcp, part, handle.driver().name());
        self.insert(connection, since, handle, Some(tcp));
        Some(())
    }

    /// Who has the socket that a process sent us, as far as the kernel driver wants to know it.
    pub(super) fn owner(&mut self, process: Option<Pid>, descriptor: u32) -> SocketOwner {
        let process = process.filter(|_| self.controls().any(FlowControl::stays_in_kernel));
        let remote = process.and_then(|process| self.remote_socket(process, descriptor));
        remote.map_or(SocketOwner::Unknown, SocketOwner::Remote)
    }

    /// A socket that a process keeps; none where the system gives no access.
    fn remote_socket(&mut self, process: Pid, descriptor: u32) -> Option<RemoteSocket> {
        let descriptor = i32::try_from(descriptor).ok()?;
        if let Some(known) = self.processes.get(&process).filter(|known| known.is_alive()) {
            return Some(known.with_descriptor(descriptor));
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.retain(|_, socket| socket.is_alive());
        }
        let socket = RemoteSocket::new(process, descriptor).ok()?;
        self.processes.insert(process, socket.clone());
        Some(socket)
    }

    fn insert(
        &mut self,
        connection: AdoptedConnection,
        since: Instant,
        handle: FlowHandle,
        tcp: Option<LendableSocket>,
    ) {
        self.watcher.lock().opened(&connection, &handle);
        let flow = ConnectionFlow { connection, since, handle, tcp, asked: Instant::now() };
        self.flows.insert(connection.flow, flow);
        self.count.set(self.flows.len());
    }

    /// The TCP socket of a flow.
    pub(super) fn tcp(&self, flow: u64) -> Option<&LendableSocket> {
        self.flows.get(&flow)?.tcp.as_ref()
    }

    /// The handle of a flow.
    pub(super) fn handle(&self, flow: u64) -> Option<&FlowHandle> {
        self.flows.get(&flow).map(|flow| &flow.handle)
    }

    /// Reports flows that have ended. The engine knows of most ends; TCP itself is asked in case it
    /// does not, and seldom enough that ten thousand idle flows cost next to nothing.
    pub(super) fn reap(&mut self) {
        let now = Instant::now();
        let before = self.flows.len();
        let patience = 2 * REAP * u32::try_from(before / 500).unwrap_or(u32::MAX).min(1000);
        let Self { flows, watcher, .. } = self;
        watcher.lock().look();
        flows.retain(|_, flow| {
            let outcome = flow.handle.outcome();
            let is_due = outcome.is_none() && now.duration_since(flow.asked) >= patience;
            if is_due {
                flow.asked = now;
            }
            let has_ended = outcome.is_some()
                || is_due && flow.tcp.as_ref().is_some_and(|tcp| is_closed(&tcp.tcp));
            if has_ended {
                watcher.lock().closed(flow.closed(outcome, false));
            }
            !has_ended
        });
        if self.flows.len() != before {
            self.count.set(self.flows.len());
        }
    }

    /// Gives all flows up; see [`Broker::cut`](crate::Broker::cut).
    pub(super) fn cut(&mut self) {
        let has_data = |flow: &ConnectionFlow| flow.handle.stats().queued_bytes > 0;
        for flow in self.flows.values().filter(|flow| has_data(flow)) {
            // What cannot be reset is relayed by nobody: it continues in the kernel.
            let _ = flow.handle.abort();
        }
        let until = Instant::now() + ABORT_WAIT;
        for (_, flow) in self.flows.drain() {
            if has_data(&flow) {
                let _ = flow.handle.wait(until.saturating_duration_since(Instant::now()));
            }
            self.watcher.lock().closed(flow.closed(None, true));
        }
        self.count.set(0);
    }
}

impl ConnectionFlow {
    fn closed(&self, outcome: Option<FlowOutcome>, cut: bool) -> ClosedConnection {
        ClosedConnection {
            connection: self.connection,
            age: self.since.elapsed(),
            stats: self.handle.stats(),
            outcome,
            cut,
            controller: self.handle.controller().clone(),
            driver: self.handle.driver(),
            driver_reason: self.handle.driver_reason().cloned(),
            controller_failure: self.handle.controller_failure(),
        }
    }
}

/// Who keeps to the window, as an experiment records it.
fn driver_of(taken: &Result<FlowHandle, TcpError>) -> &'static str {
    taken.as_ref().map_or("plain", |handle| handle.driver().name())
}

fn new_flow(connection: &AdoptedConnection, tcp: Arc<OwnedFd>) -> NewFlow {
    let AdoptedConnection { flow, outgoing, .. } = *connection;
    // The program may have answered before we had it. With a connection that it opened, TCP counts one more.
    NewFlow { number: flow - 1, tcp, outgoing, from_start: !outgoing }
}

/// Whether a TCP connection is over, as TCP itself sees it.
fn is_closed(tcp: &OwnedFd) -> bool {
    matches!(state_of_tcp(tcp), Ok(tcp_state::CLOSED) | Err(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::local_pair::LocalPair;
    use crate::broker::tests::{TOKEN, flow_name, tcp_pair};
    use cellpace_tcp::{ControlOptions, RelayEngine};
    use std::net::TcpStream;
    use std::sync::mpsc::{Receiver, channel};

    fn connections(worker: u32, workers: u32) -> (Connections, Receiver<ClosedConnection>) {
        let options = ControlOptions::new("cubic".parse().unwrap());
        let trials = Trials::new(&RelayEngine::new(), None, &options);
        let (sender, closed) = channel();
        let watcher = SharedWatcher::new(move |one| drop(sender.send(one)));
        let count = Arc::default();
        (Connections::new(worker, workers, trials, None, watcher, count), closed)
    }

    /// Starts a flow; returns the application's end and the peer.
    fn start(connections: &mut Connections) -> (OwnedFd, TcpStream) {
        let (ours, peer) = tcp_pair();
        let flow = connections.next_number();
        let (local, address) = (ours.local_addr().unwrap(), ours.peer_addr().unwrap());
        let connection = AdoptedConnection { flow, outgoing: false, local, peer: address };
        let pair = LocalPair::new(Arc::new(ours.into()), &flow_name(flow), &TOKEN, false).unwrap();
        let part = connections.trials.draw(address);
        connections.relay(connection, Instant::now(), pair.tcp, pair.far, part).unwrap();
        connections.use_number();
        (pair.application, peer)
    }

    #[test]
    fn numbers_identify_the_worker() {
        let (mut second, _closed) = connections(1, 3);
        assert_eq!(second.next_number(), 2);
        second.use_number();
        assert_eq!(second.next_number(), 5);
    }

    #[test]
    fn an_end_is_reported_once() {
        let (mut connections, closed) = connections(0, 1);
        let (end, peer) = start(&mut connections);
        let (_other, _other_peer) = start(&mut connections);
        assert!(connections.tcp(1).unwrap().belongs_to(&end));
        assert_eq!(connections.count.open(), 2);
        drop((end, peer));
        let until = Instant::now() + Duration::from_secs(10);
        while connections.count.open() > 1 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            connections.reap();
        }
        connections.reap();
        let ended: Vec<_> = closed.try_iter().map(|one| (one.connection.flow, one.cut)).collect();
        assert_eq!(ended, [(1, false)]);
        assert!(connections.tcp(1).is_none() && connections.tcp(2).is_some());
    }

    #[test]
    fn what_is_cut_is_reported_as_cut() {
        let (mut connections, closed) = connections(0, 1);
        let ends = [start(&mut connections), start(&mut connections)];
        connections.cut();
        assert!(connections.is_empty());
        assert_eq!(connections.count.open(), 0);
        assert_eq!(closed.try_iter().filter(|one| one.cut).count(), ends.len());
    }
}
