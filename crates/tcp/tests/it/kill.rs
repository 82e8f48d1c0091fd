//! What a peer sees when a process with flows is killed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cellpace_alcc::AlccRole;
use cellpace_tcp::{
    AlccStream, ClientServerOptions, FlowDriver, FlowOptions, FlowOutcome, GateOptions, RelayEngine,
};
use socket2::SockRef;

const PATIENCE: Duration = Duration::from_secs(20);
const RESET: Option<Duration> = Some(Duration::ZERO);
const ADDRESS: &str = "CELLPACE_TEST_ADDRESS";

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn gate() -> FlowDriver {
    FlowDriver::Gate(GateOptions::default())
}

fn options(driver: FlowDriver) -> FlowOptions {
    FlowOptions { driver, ..FlowOptions::new("fixed:cwnd=20pkts".parse().unwrap()) }
}

/// A flow in a process that is to be killed, and its TCP socket.
struct Victim {
    stream: AlccStream,
    tcp: TcpStream,
}

impl Victim {
    fn linger(&self) -> Option<Duration> {
        SockRef::from(&self.tcp).linger().unwrap()
    }

    /// Writes as much as is taken at once while nobody reads.
    fn fill(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        while self.stream.write(&[7; 1 << 16]).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn send_all(&mut self, bytes: u64) {
        self.stream.write_all(&vec![7; bytes as usize]).unwrap();
        soon("all is acknowledged", || self.stream.stats().acked_bytes >= bytes);
    }
}

/// The other process: the connection's peer, which kills it.
struct Peer {
    tcp: TcpStream,
    victim: Child,
    ready: TcpStream,
}

impl Peer {
    fn kill(&mut self) {
        self.ready.read_exact(&mut [0]).expect("the victim failed");
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
    }

    /// How much comes before the end.
    fn read(&self) -> io::Result<usize> {
        let mut got = Vec::new();
        (&self.tcp).read_to_end(&mut got).map(|_| got.len())
    }

    #[track_caller]
    fn sees_a_reset(&self) {
        let seen = self.read();
        assert!(matches!(&seen, Err(e) if e.kind() == ErrorKind::ConnectionReset), "{seen:?}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Runs the named test once more, in a process that prepares a flow and is then killed by what the
/// first process does.
fn killed(name: &str, driver: FlowDriver, prepare: impl Fn(&mut Victim), look: impl Fn(Peer)) {
    let Ok(address) = std::env::var(ADDRESS) else { return look(peer(name)) };
    let tcp = TcpStream::connect(&address).unwrap();
    let mut ready = TcpStream::connect(&address).unwrap();
    let engine = RelayEngine::new();
    let kept = tcp.try_clone().unwrap();
    let stream = AlccStream::new(&engine, tcp, &options(driver)).unwrap();
    let mut victim = Victim { stream, tcp: kept };
    prepare(&mut victim);
    ready.write_all(&[1]).unwrap();
    // To be killed; or the first process has ended.
    let _ = ready.read(&mut [0]);
}

fn peer(name: &str) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("kill::{name}"), "--test-threads=1"])
        .env(ADDRESS, listener.local_addr().unwrap().to_string())
        .stdout(Stdio::null())
        .spawn();
    let (tcp, ready) = (listener.accept().unwrap().0, listener.accept().unwrap().0);
    for socket in [&tcp, &ready] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    Peer { tcp, victim: victim.unwrap(), ready }
}

#[test]
fn what_was_not_sent_is_no_end_in_order() {
    killed(
        "what_was_not_sent_is_no_end_in_order",
        gate(),
        |victim| {
            victim.fill();
            soon("it holds bytes", || victim.linger() == RESET);
        },
        |mut peer| {
            peer.kill();
            peer.sees_a_reset();
        },
    );
}

#[test]
fn what_was_closed_and_not_sent_is_no_end_in_order() {
    killed(
        "what_was_closed_and_not_sent_is_no_end_in_order",
        gate(),
        |victim| {
            victim.fill();
            victim.stream.finish().unwrap();
            soon("it holds bytes", || victim.linger() == RESET);
        },
        |mut peer| {
            peer.kill();
            peer.sees_a_reset();
        },
    );
}

#[test]
fn who_has_sent_everything_ends_in_order() {
    killed(
        "who_has_sent_everything_ends_in_order",
        gate(),
        |victim| {
            // More than a window: bytes had to wait.
            victim.send_all(300_000);
            soon("nothing is held", || victim.linger().is_none());
        },
        |mut peer| {
            let mut first = vec![0; 300_000];
            peer.tcp.read_exact(&mut first).unwrap();
            peer.kill();
            assert_eq!(peer.read().unwrap(), 0, "a plain end");
        },
    );
}

#[test]
fn an_end_that_tcp_has_outlives_the_process() {
    killed(
        "an_end_that_tcp_has_outlives_the_process",
        gate(),
        |victim| {
            victim.stream.write_all(&[7; 10_000]).unwrap();
            victim.stream.finish().unwrap();
            soon("the end is TCP's", || victim.stream.stats().acked_bytes >= 10_000);
            assert_eq!(victim.linger(), None);
        },
        |mut peer| {
            peer.kill();
            assert_eq!(peer.read().unwrap(), 10_000);
        },
    );
}

#[test]
fn what_the_application_did_not_read_is_no_end_in_order() {
    killed(
        "what_the_application_did_not_read_is_no_end_in_order",
        gate(),
        |victim| {
            victim.stream.finish().unwrap();
            soon("it holds bytes", || victim.linger() == RESET);
        },
        |mut peer| {
            peer.tcp.set_nonblocking(true).unwrap();
            while peer.tcp.write(&[7; 1 << 16]).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            peer.tcp.set_nonblocking(false).unwrap();
            // The end of the half that has ended comes first.
            assert_eq!(peer.tcp.read(&mut [0]).unwrap(), 0);
            peer.kill();
            soon("the connection is reset", || {
                let error = SockRef::from(&peer.tcp).take_error().unwrap();
                error.is_some_and(|e| {
                    matches!(e.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE))
                })
            });
        },
    );
}

#[test]
fn a_linger_of_the_program_counts_where_nothing_is_held() {
    killed(
        "a_linger_of_the_program_counts_where_nothing_is_held",
        gate(),
        |victim| {
            SockRef::from(&victim.tcp).set_linger(RESET).unwrap();
            victim.send_all(300_000);
        },
        |mut peer| {
            let mut first = vec![0; 300_000];
            peer.tcp.read_exact(&mut first).unwrap();
            peer.kill();
            peer.sees_a_reset();
        },
    );
}

#[test]
fn a_framed_flow_that_holds_bytes_is_reset() {
    killed(
        "a_framed_flow_that_holds_bytes_is_reset",
        FlowDriver::ClientServer(ClientServerOptions::new(AlccRole::Connect)),
        |victim| {
            victim.fill();
            soon("it holds bytes", || victim.linger() == RESET);
        },
        |mut peer| {
            let role = AlccRole::Listen { wait: None };
            let tcp = peer.tcp.try_clone().unwrap();
            let options = options(FlowDriver::ClientServer(ClientServerOptions::new(role)));
            let stream = AlccStream::new(&RelayEngine::new(), tcp, &options).unwrap();
            peer.kill();
            assert_eq!(stream.flow().wait(PATIENCE), Some(FlowOutcome::Failed(libc::ECONNRESET)));
        },
    );
}

/// In one process: the option is the program's own again when nothing is held, and decides how a
/// connection ends that is closed while something is.
#[test]
fn the_programs_linger_is_its_own_at_the_end() {
    let engine = RelayEngine::new();
    for own in [None, Some(Duration::from_secs(7))] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut peer = listener.accept().unwrap().0;
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        SockRef::from(&tcp).set_linger(own).unwrap();
        let kept = tcp.try_clone().unwrap();
        let stream = AlccStream::new(&engine, tcp, &options(gate())).unwrap();
        let mut victim = Victim { stream, tcp: kept };
        let mut written = 0;
        victim.stream.set_nonblocking(true).unwrap();
        while let Ok(count) = victim.stream.write(&[7; 1 << 16]) {
            written += count;
            std::thread::sleep(Duration::from_millis(1));
        }
        soon("it holds bytes", || victim.linger() == RESET);
        victim.stream.flow().lend_linger();
        assert_eq!(victim.linger(), own, "what the program reads is its own");
        let Victim { stream, tcp } = victim;
        drop(stream);
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), written, "closed while bytes were held, and all arrived");
        assert_eq!(SockRef::from(&tcp).linger().unwrap(), own);
    }
}

#[test]
fn a_linger_of_zero_that_is_set_while_bytes_are_held_resets_on_close() {
    let engine = RelayEngine::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut peer = listener.accept().unwrap().0;
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let kept = tcp.try_clone().unwrap();
    let stream = AlccStream::new(&engine, tcp, &options(gate())).unwrap();
    let mut victim = Victim { stream, tcp: kept };
    victim.fill();
    soon("it holds bytes", || victim.linger() == RESET);
    victim.stream.flow().lend_linger();
    SockRef::from(&victim.tcp).set_linger(RESET).unwrap();
    drop(victim.stream);
    let error = peer.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
