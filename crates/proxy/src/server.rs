//! Listeners, limits, and the end.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cellpace_os::service::prefer_second_listener;
use cellpace_tcp::{RelayEngine, Trial, Trials, trim_memory};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::clients::ProxyClients;
use crate::config::{ProxyConfig, ProxyMode};
use crate::connection::{ProxyShared, serve};
use crate::error::ProxyError;
use crate::metrics::Metrics;
use crate::notice::{Notice, StopUrgency, at_least};

/// Length of the kernel's backlog, which the kernel cuts to its own limit.
const BACKLOG: i32 = 4096;
/// Pause when no connection can be taken: descriptors come back as connections end.
const PAUSE: Duration = Duration::from_millis(100);
/// Time within which flows are freed whose connections have ended.
const FLOWS_END: Duration = Duration::from_secs(1);
/// Number of connections whose memory is worth giving back, some 25 MB.
const MANY: usize = 1000;

/// How a proxy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyOutcome {
    /// Connections that were cut.
    pub cut: u64,
}

/// A proxy that listens and takes no connection yet.
pub struct Proxy {
    listeners: Vec<Listener>,
    addresses: Vec<SocketAddr>,
    config: watch::Sender<ProxyConfig>,
    metrics: Metrics,
}

/// Changes the configuration of a proxy that runs.
#[derive(Debug, Clone)]
pub struct Reconfigure(watch::Sender<ProxyConfig>);

impl Reconfigure {
    /// Has connections from now on served by `config`. Those that are open keep theirs, the listeners stay
    /// as they are, and where there are more connections than may be, new ones, but for one at each listener, wait
    /// until enough have ended.
    pub fn set(&self, config: ProxyConfig) {
        self.0.send_modify(|now| *now = ProxyConfig { listen: now.listen.clone(), ..config });
    }
}

impl Proxy {
    /// Listens, at sockets that a service manager `passed` where their addresses are in `config`. Ports that
    /// are 0 in `config` are replaced by those that the system chose.
    ///
    /// # Errors
    /// When an address cannot be listened at, or is not in `config` although a socket was passed for it.
    pub fn bind(
        mut config: ProxyConfig,
        mut passed: Vec<StdTcpListener>,
    ) -> Result<Self, ProxyError> {
        let transparent = matches!(config.mode, ProxyMode::Transparent);
        let mut listeners = Vec::new();
        for address in &mut config.listen {
            let is_its =
                |socket: &StdTcpListener| socket.local_addr().is_ok_and(|at| at == *address);
            let listener = match passed.iter().position(is_its) {
                Some(place) => Listener { socket: passed.remove(place), origin: Origin::Passed },
                None => listen(*address, transparent)?,
            };
            let wrong = |source| ProxyError::Listen { address: *address, source };
            *address = listener.socket.local_addr().map_err(wrong)?;
            listeners.push(listener);
        }
        if let Some(address) = passed.first().and_then(|socket| socket.local_addr().ok()) {
            return Err(ProxyError::Passed(address));
        }
        let addresses = config.listen.clone();
        let metrics = Metrics::new();
        metrics.set_max(config.limits.connections);
        Ok(Self { listeners, addresses, config: watch::Sender::new(config), metrics })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where another process of this user listens, too, which should end: connections come here from now on.
    pub fn taken_over(&self) -> impl Iterator<Item = SocketAddr> {
        let listeners = self.listeners.iter().zip(&self.addresses);
        listeners.filter(|(listener, _)| listener.origin == Origin::Shared).map(|(_, at)| *at)
    }

    /// Returns what changes its configuration.
    pub fn reconfigure(&self) -> Reconfigure {
        Reconfigure(self.config.clone())
    }

    /// What it counts.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Serves until it is stopped and all connections have ended or the time for that is over.
    /// A dropped sender of `stop` cuts everything. To be called within a tokio runtime.
    ///
    /// # Errors
    /// When the runtime cannot take a listener.
    pub async fn run(
        self,
        mut stop: watch::Receiver<StopUrgency>,
        report: impl Fn(Notice) + Send + Sync + 'static,
    ) -> io::Result<ProxyOutcome> {
        let mut configs = self.config.subscribe();
        let config = configs.borrow_and_update().clone();
        let limits = config.limits;
        let turns = Arc::new(Semaphore::new(limits.connections));
        let engine = RelayEngine::new();
        let shared = ProxyShared {
            trials: trials(&engine, &config),
            engine,
            config,
            metrics: self.metrics,
            report: Arc::new(report),
            flows: Arc::default(),
            cut: Arc::default(),
            peak: Arc::default(),
            clients: ProxyClients::new(limits.per_client),
            crowded: watch::Sender::new(false),
        };
        let cut = shared.cut.clone();
        let (newest, current) = watch::channel(Arc::new(shared));
        // What connections see: `Now` also comes when the time for draining is over.
        let (end, ending) = watch::channel(StopUrgency::No);
        let (close, closing) = watch::channel(false);
        let (alive, mut older_gone) = mpsc::channel::<()>(1);
        let (late, mut late_gone) = mpsc::channel::<()>(1);
        let is_passed = self.listeners.iter().any(|listener| listener.origin == Origin::Passed);
        for listener in self.listeners {
            tokio::spawn(accept(Acceptor {
                listener: TcpListener::from_std(listener.socket)?,
                origin: listener.origin,
                current: current.clone(),
                turns: turns.clone(),
                stop: ending.clone(),
                closing: closing.clone(),
                alive: alive.clone(),
                late: late.clone(),
            }));
        }
        drop((alive, late));
        loop {
            tokio::select! {
                () = at_least(&mut stop, StopUrgency::Drain) => break,
                Ok(()) = configs.changed() => {
                    let config = configs.borrow_and_update().clone();
                    newest.send_modify(|shared| *shared = Arc::new(shared.under(config, &turns)));
                }
            }
        }
        let drain = current.borrow().config.limits.drain;
        let until = Instant::now() + drain;
        end.send_replace(StopUrgency::Drain);
        if is_passed {
            // The next process begins when this one has ended: until then, no other one serves.
            tokio::select! {
                _ = older_gone.recv() => {}
                () = sleep(drain / 2) => {}
                () = at_least(&mut stop, StopUrgency::Now) => {}
            }
        }
        close.send_replace(true);
        let mut all_gone = pin!(async {
            older_gone.recv().await;
            late_gone.recv().await;
        });
        let drained = tokio::select! {
            drained = timeout_at(until, &mut all_gone) => drained.is_ok(),
            () = at_least(&mut stop, StopUrgency::Now) => false,
        };
        if !drained {
            end.send_replace(StopUrgency::Now);
            all_gone.await;
        }
        Ok(ProxyOutcome { cut: cut.load(Ordering::Relaxed) })
    }
}

/// Where a listening socket comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The service manager: it stays open when this process ends, and keeps what waits in it.
    Passed,
    /// It is this process's alone.
    Own,
    /// Another process listens at the address, too, and was there before.
    Shared,
}

struct Listener {
    socket: StdTcpListener,
    origin: Origin,
}

struct Acceptor {
    listener: TcpListener,
    origin: Origin,
    /// What connections that begin now share.
    current: watch::Receiver<Arc<ProxyShared>>,
    turns: Arc<Semaphore>,
    stop: watch::Receiver<StopUrgency>,
    /// No more connections are taken.
    closing: watch::Receiver<bool>,
    /// Dropped with the last connection of this listener.
    alive: mpsc::Sender<()>,
    /// The same of connections that were taken while others drained.
    late: mpsc::Sender<()>,
}

async fn accept(mut acceptor: Acceptor) {
    acceptor.accept_until(StopUrgency::Drain).await;
    // What waits in a socket that closes is reset; in one that was passed, it waits for the next process, and is
    // served here for as long as older connections hold that up.
    if acceptor.origin != Origin::Passed {
        return acceptor.empty_the_backlog();
    }
    acceptor.alive = acceptor.late.clone();
    let mut closing = acceptor.closing.clone();
    tokio::select! {
        // An error means that the proxy has ended.
        _ = closing.wait_for(|closing| *closing) => {}
        () = acceptor.accept_until(StopUrgency::Now) => {}
    }
}

impl Acceptor {
    /// Serves those who come, until it is so urgent to stop.
    async fn accept_until(&self, urgency: StopUrgency) {
        let mut stop = self.stop.clone();
        let mut failing = false;
        loop {
            let taken = tokio::select! {
                biased;
                () = at_least(&mut stop, urgency) => return,
                taken = take(&self.listener, &self.turns) => taken,
            };
            let shared = self.current.borrow().clone();
            match taken {
                Ok(taken) => {
                    failing = false;
                    self.serve(taken);
                }
                // An error of this one connection and not of the listener; see accept(2).
                Err(error) if is_of_the_client(&error) => shared.metrics.accept_failed(),
                Err(error) => {
                    shared.metrics.accept_failed();
                    if !failing {
                        (shared.report)(Notice::AcceptFailed(error));
                    }
                    failing = true;
                    // The connection stays in the backlog, so the listener would be ready at once.
                    tokio::select! {
                        () = at_least(&mut stop, urgency) => return,
                        () = sleep(PAUSE) => {}
                    }
                }
            }
        }
    }

    fn serve(&self, (turn, stream, from): Taken) {
        let (current, turns) = (self.current.clone(), self.turns.clone());
        let shared = current.borrow().clone();
        shared.look_at_crowd(&turns);
        let served = serve(shared, stream, from, self.stop.clone());
        let alive = self.alive.clone();
        tokio::spawn(async move {
            served.await;
            drop((turn, alive));
            let shared = current.borrow().clone();
            shared.look_at_crowd(&turns);
            shared.trim_after_a_peak(&turns);
        });
    }

    /// Serves what the kernel has accepted already, as far as there may be more connections.
    fn empty_the_backlog(&self) {
        while let Ok(turn) = self.turns.clone().try_acquire_owned() {
            match accept_now(&self.listener) {
                Ok((stream, from)) => self.serve((turn, stream, canonical(from))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_of_the_client(&error) => {}
                Err(_) => return,
            }
        }
    }
}

impl ProxyShared {
    /// The same for connections that begin under another configuration.
    fn under(&self, config: ProxyConfig, turns: &Arc<Semaphore>) -> Self {
        let (before, now) = (self.config.limits.connections, config.limits.connections);
        turns.add_permits(now.saturating_sub(before));
        let fewer = u32::try_from(before.saturating_sub(now)).unwrap_or(u32::MAX);
        let turns = turns.clone();
        // Those that are free at once, others as connections end.
        tokio::spawn(async move {
            if let Ok(turns) = turns.acquire_many_owned(fewer).await {
                turns.forget();
            }
        });
        self.metrics.set_max(now);
        self.clients.limit(config.limits.per_client);
        let trials = match &self.config.trial {
            // It goes on as it began.
            Some(Trial::Experiment { .. }) => self.trials.clone(),
            Some(Trial::ShareOf(_)) | None => trials(&self.engine, &config),
        };
        let trial = match &self.config.trial {
            trial @ Some(Trial::Experiment { .. }) => trial.clone(),
            Some(Trial::ShareOf(_)) | None => config.trial.clone(),
        };
        Self { config: ProxyConfig { trial, ..config }, trials, ..self.clone() }
    }

    /// Nearly all connections are taken when fewer than an eighth are left, until a quarter is.
    fn look_at_crowd(&self, turns: &Semaphore) {
        let (left, all) = (turns.available_permits(), self.config.limits.connections);
        self.crowded.send_if_modified(|crowded| {
            let now = left < if *crowded { all.div_ceil(4) } else { all / 8 };
            std::mem::replace(crowded, now) != now
        });
    }
}

impl ProxyShared {
    /// Gives memory back when seven eighths of many connections have ended.
    fn trim_after_a_peak(&self, turns: &Semaphore) {
        let open = self.config.limits.connections.saturating_sub(turns.available_permits());
        let peak = self.peak.fetch_max(open, Ordering::Relaxed);
        if peak >= MANY && open <= peak / 8 {
            self.peak.store(open, Ordering::Relaxed);
            tokio::spawn(async {
                sleep(FLOWS_END).await;
                tokio::task::spawn_blocking(trim_memory);
            });
        }
    }
}

fn trials(engine: &RelayEngine, config: &ProxyConfig) -> Arc<Trials> {
    Arc::new(Trials::new(engine, config.trial.clone(), &config.flow))
}

/// Accepts a connection that waits, without waiting for one. Asks the kernel: the runtime may not have heard of
/// the newest ones.
fn accept_now(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (socket, from) = SockRef::from(listener).accept()?;
    socket.set_nonblocking(true)?;
    let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    Ok((TcpStream::from_std(socket.into())?, from))
}

type Taken = (tokio::sync::OwnedSemaphorePermit, TcpStream, SocketAddr);

/// Takes a connection once there may be one more.
async fn take(listener: &TcpListener, turns: &Arc<Semaphore>) -> io::Result<Taken> {
    let turn = turns.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, from) = listener.accept().await?;
    Ok((turn, stream, canonical(from)))
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn is_of_the_client(error: &io::Error) -> bool {
    !matches!(
        error.raw_os_error(),
        None | Some(
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EBADF | libc::EINVAL
        )
    )
}

fn listen(address: SocketAddr, transparent: bool) -> Result<Listener, ProxyError> {
    let wrong = |source| ProxyError::Listen { address, source };
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP));
    let socket = socket.map_err(wrong)?;
    socket.set_reuse_address(true).map_err(wrong)?;
    if transparent {
        if address.is_ipv6() {
            socket.set_only_v6(true).map_err(wrong)?;
        }
        // The option is the socket's, whatever its family.
        socket.set_ip_transparent_v4(true).map_err(ProxyError::Transparent)?;
    }
    let origin = bind(&socket, address).map_err(wrong)?;
    socket.listen(BACKLOG).map_err(wrong)?;
    let socket = StdTcpListener::from(socket);
    if origin == Origin::Shared {
        prefer_second_listener(&socket).map_err(wrong)?;
    }
    Ok(Listener { socket, origin })
}

/// Binds to an address alone, or else beside an earlier process of this user that lets others in, as each
/// proxy does.
fn bind(socket: &Socket, address: SocketAddr) -> io::Result<Origin> {
    let alone = socket.bind(&address.into());
    socket.set_reuse_port(true)?;
    match alone {
        Ok(()) => Ok(Origin::Own),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            socket.bind(&address.into()).map(|()| Origin::Shared)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a proxy that drains finds it: the runtime has not looked since the client came.
    #[tokio::test]
    async fn a_connection_that_the_runtime_has_not_heard_of_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nothing = accept_now(&listener).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_, from) = accept_now(&listener).unwrap();
        assert_eq!(from, client.local_addr().unwrap());
    }

    #[test]
    fn want_of_descriptors_is_not_the_clients_fault() {
        let of_client = |errno| is_of_the_client(&io::Error::from_raw_os_error(errno));
        assert!(of_client(libc::ECONNABORTED) && of_client(libc::EPROTO));
        assert!(!of_client(libc::EMFILE) && !of_client(libc::ENFILE) && !of_client(libc::ENOMEM));
        assert!(!is_of_the_client(&io::Error::other("closed")));
    }
}
