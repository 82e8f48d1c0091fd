//! Listeners, limits, and the end.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use cellpace_os::service::prefer_second_listener;
use cellpace_tcp::{RelayEngine, trim_memory};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::clients::ProxyClients;
use crate::config::{ProxyConfig, ProxyMode};
use crate::connection::{ProxyShared, serve};
use crate::error::ProxyError;
use crate::metrics::Metrics;
use crate::notice::{Notice, StopUrgency, at_least};
use crate::trial::Trials;

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
    config: ProxyConfig,
    metrics: Metrics,
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
        Ok(Self { listeners, addresses, config, metrics })
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
        let limits = self.config.limits;
        let turns = Arc::new(Semaphore::new(limits.connections));
        let engine = RelayEngine::new();
        let shared = Arc::new(ProxyShared {
            trials: Trials::new(
                &engine,
                self.config.trial.clone(),
                &self.config.flow,
                self.config.control.client(),
            ),
            config: self.config,
            metrics: self.metrics,
            report: Box::new(report),
            flows: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            peak: AtomicUsize::new(0),
            clients: ProxyClients::new(limits.per_client),
            crowded: watch::Sender::new(false),
        });
        // What connections see: `Now` also comes when the time for draining is over.
        let (end, ending) = watch::channel(StopUrgency::No);
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        for listener in self.listeners {
            tokio::spawn(accept(Acceptor {
                listener: TcpListener::from_std(listener.socket)?,
                origin: listener.origin,
                shared: shared.clone(),
                turns: turns.clone(),
                stop: ending.clone(),
                alive: alive.clone(),
            }));
        }
        drop(alive);
        at_least(&mut stop, StopUrgency::Drain).await;
        end.send_replace(StopUrgency::Drain);
        let drained = tokio::select! {
            drained = timeout(limits.drain, all_gone.recv()) => drained.is_ok(),
            () = at_least(&mut stop, StopUrgency::Now) => false,
        };
        if !drained {
            end.send_replace(StopUrgency::Now);
            all_gone.recv().await;
        }
        Ok(ProxyOutcome { cut: shared.cut.load(Ordering::Relaxed) })
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
    shared: Arc<ProxyShared>,
    turns: Arc<Semaphore>,
    stop: watch::Receiver<StopUrgency>,
    /// Dropped with the last connection of this listener.
    alive: mpsc::Sender<()>,
}

async fn accept(acceptor: Acceptor) {
    let mut stop = acceptor.stop.clone();
    let mut failing = false;
    loop {
        let taken = tokio::select! {
            biased;
            () = at_least(&mut stop, StopUrgency::Drain) => break,
            taken = take(&acceptor.listener, &acceptor.turns) => taken,
        };
        match taken {
            Ok(taken) => {
                failing = false;
                acceptor.serve(taken);
            }
            // An error of this one connection and not of the listener; see accept(2).
            Err(error) if is_of_the_client(&error) => acceptor.shared.metrics.accept_failed(),
            Err(error) => {
                acceptor.shared.metrics.accept_failed();
                if !failing {
                    (acceptor.shared.report)(Notice::AcceptFailed(error));
                }
                failing = true;
                // The connection stays in the backlog, so the listener would be ready at once.
                tokio::select! {
                    () = at_least(&mut stop, StopUrgency::Drain) => break,
                    () = sleep(PAUSE) => {}
                }
            }
        }
    }
    // What waits in a socket that closes is reset; in one that was passed, it waits for the next process.
    if acceptor.origin != Origin::Passed {
        acceptor.empty_the_backlog();
    }
}

impl Acceptor {
    fn serve(&self, (turn, stream, from): Taken) {
        let (shared, turns) = (self.shared.clone(), self.turns.clone());
        shared.look_at_crowd(&turns);
        let served = serve(shared.clone(), stream, from, self.stop.clone());
        let alive = self.alive.clone();
        tokio::spawn(async move {
            served.await;
            drop((turn, alive));
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
        let open = self.config.limits.connections - turns.available_permits();
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
