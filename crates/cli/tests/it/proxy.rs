//! `cellpace proxy` as users run it.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cellpace_tcp::SocketOwner;

use crate::program;
use crate::program::eventually;
use crate::program::links::{is_root, open_folder, unshared};

const PATIENCE: Duration = Duration::from_secs(30);

fn cellpace(args: &[&str]) -> Command {
    cellpace_testing::heed_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
    command.arg("proxy").args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn refused(args: &[&str]) -> String {
    let mut child = cellpace(args).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{args:?} is taken");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A proxy that waits, and what it says.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(cellpace(&[&["--listen", "127.0.0.1:0"], args].concat()))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut before = Vec::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("{before:?}")).unwrap();
            if let Some((_, address)) = line.split_once("waiting at ") {
                break address.parse().unwrap();
            }
            before.push(line);
        };
        let said = Arc::new(Mutex::new(before));
        let log = said.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                log.lock().unwrap().push(line);
            }
        });
        Self { child, address, said }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waits for a line that contains this.
    pub(crate) fn await_line(&self, part: &str) -> String {
        let start = Instant::now();
        loop {
            let found = self.said.lock().unwrap().iter().find(|line| line.contains(part)).cloned();
            if let Some(line) = found {
                return line;
            }
            assert!(start.elapsed() < PATIENCE, "{part}: {:?}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether it has said this.
    pub(crate) fn has_said(&self, part: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line.contains(part))
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    pub(crate) fn code(mut self) -> Option<i32> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A web server of one page, which says who asked and how.
fn page() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut request = Vec::new();
                let mut part = [0; 1024];
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut part) {
                        Ok(count @ 1..) => request.extend_from_slice(&part[..count]),
                        _ => return,
                    }
                }
                let line = request.split(|&byte| byte == b'\n').next().unwrap();
                let answer = [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", line].concat();
                let _ = stream.write_all(&answer);
            });
        }
    });
    address
}

pub(crate) fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut reader = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut reader, &mut stream);
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

pub(crate) fn exchange(stream: &mut TcpStream) {
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

fn curl(args: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.args(["-sS", "--max-time", "20"]).args(args).output().unwrap()
}

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn quiet_prints_errors_only_and_excludes_verbose() {
    let page = page().to_string();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    // Everybody may use this one, of which there is a warning without -q.
    let quiet = cellpace(&["--listen", "0.0.0.0:0", "--socks5", "-q"]).spawn().unwrap();
    eventually("listening", || is_listening(quiet.id()));
    assert!(Command::new("kill").arg(quiet.id().to_string()).status().unwrap().success());
    let output = cellpace_testing::finished(quiet);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let address = busy.local_addr().unwrap().to_string();
    let output = cellpace(&["--listen", &address, "--to", &page, "-q"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("--listen: "));
    assert!(refused(&["--listen", "0", "--to", &page, "-q", "-v"]).contains("--quiet"));
}

/// Whether a process has a TCP socket that listens.
fn is_listening(process: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let sockets: Vec<String> = descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.replace(']', "")))
        .collect();
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
        let [state, inode] = [3, 9].map(|at| fields.get(at).copied().unwrap_or_default());
        state == "0A" && sockets.iter().any(|socket| socket == inode)
    })
}

#[test]
fn the_help_has_examples_and_every_mode() {
    let output = cellpace(&["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for part in ["--to", "--socks5", "--transparent", "--cc", "--drain", "Examples:"] {
        assert!(help.contains(part), "{part}\n{help}");
    }
}

#[test]
fn wrong_options_are_named() {
    let to = ["--listen", "0", "--to", "localhost:80"];
    for (args, part) in [
        (&["--listen", "0"][..], "--to"),
        (&["--to", "localhost:80"], "--listen"),
        (&["--listen", "here", "--to", "localhost:80"], "--listen"),
        (&["--listen", "0", "--to", "localhost"], "--to"),
        (&["--listen", "0", "--to", "localhost:80", "--socks5"], "--socks5"),
        (&[&to[..], &["--cc", "nothing"]].concat(), "--cc: "),
        (&[&to[..], &["--cc", "sprout"]].concat(), "--cc: sprout needs a receiver half"),
        (&[&to[..], &["--driver", "udp"]].concat(), "--driver"),
        (&[&to[..], &["--share", "--driver", "client-server"]].concat(), "--share"),
        (&["--listen", "0", "--socks5", "--driver", "client-server"], "--control upstream"),
        (
            &[&to[..], &["--driver", "client-server", "--accept-proxy", "::1"]].concat(),
            "--control upstream",
        ),
        (&["--listen", "0", "--to", "name.invalid:80"], "`name.invalid` does not resolve"),
        (&[&to[..], &["--below", "nosuchcc"]].concat(), "no congestion control `nosuchcc`"),
        (&[&to[..], &["--idle", "5"]].concat(), "--idle"),
        (&[&to[..], &["--max-connections", "0"]].concat(), "--max-connections"),
        (&[&to[..], &["--dashboard", "0.0.0.0:9100"]].concat(), "--dashboard"),
        (&[&to[..], &["--user", "me:file"]].concat(), "--user: only with --socks5"),
        (&[&to[..], &["--rules", "apply"]].concat(), "--rules: only with --transparent"),
        (&[&to[..], &["--ports", "80"]].concat(), "--rules"),
        (&["--listen", "0", "--socks5", "--user", "me:/nowhere"], "--user: /nowhere: "),
        (&[&to[..], &["--accept-proxy", "10.0.0.0/99"]].concat(), "--accept-proxy"),
        (&["--listen", "0", "--transparent", "--rules", "print"], "--listen: "),
        (&[&to[..], &["--allow", "10.0.0.0/8"]].concat(), "--allow and --deny: only with --socks5"),
        (&["--listen", "0", "--socks5", "--deny", "10.0.0.0/99"], "--deny"),
        (&[&to[..], &["--max-per-client", "all"]].concat(), "--max-per-client"),
    ] {
        let said = refused(args);
        assert!(said.contains(part), "{args:?}: {said}");
    }
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = cellpace(&["--listen", &address, "--to", "localhost:80"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("cellpace: --listen: ") && said.contains(&address), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn an_open_socks_proxy_is_warned_of() {
    let args = ["--listen", "0.0.0.0:0", "--socks5"];
    let proxy = Running::spawn(cellpace(&args));
    proxy.await_line("warning: whoever reaches 0.0.0.0:0");
    let quiet = Running::start(&["--socks5"]);
    assert!(quiet.said.lock().unwrap().is_empty());
}

#[test]
fn a_web_page_through_the_forwarder() {
    let to = page().to_string();
    let proxy = Running::start(&["--to", &to, "--cc", "copa", "--verbose"]);
    let url = format!("http://{}/some/where", proxy.address);
    assert_eq!(text(&curl(&[&url])).trim(), "GET /some/where HTTP/1.1");
    let line = proxy.await_line("finished");
    assert!(line.contains(&format!("-> {to}: finished, ")), "{line}");
}

/// Two proxies, acks inside the stream between them; and a client that knows nothing of it.
#[test]
fn the_client_server_driver_runs_between_two_proxies_and_spares_plain_clients() {
    let to = echo().to_string();
    for cc in ["copa", "sprout"] {
        let driver = ["--driver", "client-server", "--cc", cc, "--dashboard", "0"];
        let far = Running::start(&[&driver[..], &["--to", &to]].concat());
        let at = far.address.to_string();
        let near = ["--to", &at, "--control", "upstream"];
        let near = Running::start(&[&driver[..], &near].concat());
        let mut through = near.connect();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&through).write_all(&sent).unwrap();
                through.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            (&through).read_to_end(&mut got).unwrap();
            assert!(got == sent, "{cc}: {} bytes", got.len());
        });
        let mut plain = far.connect();
        exchange(&mut plain);
        through = near.connect();
        exchange(&mut through);
    }
}

/// Upstream must answer: a plain server would take the hello for data.
#[test]
fn a_plain_destination_of_the_client_server_driver_ends_the_connection() {
    let to = page().to_string();
    let driver = ["--driver", "client-server", "--control", "upstream", "--cc", "copa"];
    let proxy = Running::start(&[&driver[..], &["--to", &to, "--verbose"]].concat());
    let mut client = proxy.connect();
    client.write_all(b"\r\n\r\n").unwrap();
    let answer = client.read(&mut [0; 100]);
    assert!(answer.is_err(), "{answer:?}");
    proxy.await_line("reset");
}

#[test]
fn clients_of_a_proxy_may_share_a_window() {
    let to = echo().to_string();
    let proxy = Running::start(&["--to", &to, "--share", "--cc", "copa"]);
    let mut clients = [(); 3].map(|()| proxy.connect());
    for client in &mut clients {
        exchange(client);
    }
    let sent = vec![9; 2_000_000];
    std::thread::scope(|scope| {
        for client in &clients {
            let sent = &sent;
            scope.spawn(move || {
                scope.spawn(move || {
                    let mut writer = client;
                    writer.write_all(sent).unwrap();
                    client.shutdown(Shutdown::Write).unwrap();
                });
                let mut got = Vec::new();
                let mut reader = client;
                reader.read_to_end(&mut got).unwrap();
                assert!(got == *sent, "{} bytes", got.len());
            });
        }
    });
}

#[test]
fn g8_samples_of_a_proxy_make_a_table() {
    let folder = program::Folder::new();
    let samples = folder.path("samples.csv").display().to_string();
    let to = echo().to_string();
    let watched = ["--cc", "copa", "--mdi-samples", &samples, "--mdi-users", "1"];
    let proxy = Running::start(&[&["--to", &to][..], &watched].concat());
    // Loopback is fast: a connection is to last for some epochs of 5 ms.
    let sent = vec![9; 30_000_000];
    eventually("epochs that follow each other", || {
        let client = proxy.connect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&client).write_all(&sent).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            (&client).read_to_end(&mut got).unwrap();
            assert!(got == sent, "{} bytes", got.len());
        });
        let read = cellpace_mdi::read_samples(&folder.read("samples.csv")).unwrap_or_default();
        assert!(read.iter().all(|flows| flows.users == 1));
        read.iter().flat_map(|flows| &flows.chains).map(|chain| chain.len() - 1).sum::<usize>() >= 5
    });
    proxy.signal("TERM");
    assert_eq!(proxy.code(), Some(0));
    let table = folder.good("mdi convert samples.csv --teacher copa -o copa.mdi");
    assert!(table.contains("users 1: "), "{table}");
    folder.good("compare --trace constant:12mbit --duration 3s --cc mdi:model=copa.mdi");
}

#[test]
fn a_web_page_through_socks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    fs::write(&file, "secret\n").unwrap();
    let user = format!("me:{}", file.display());
    let port = page().port();
    let proxy = Running::start(&["--socks5", "--user", &user, "--control", "upstream"]);
    let address = proxy.address.to_string();
    // The name is resolved by the proxy.
    let url = format!("http://localhost:{port}/here");
    let known = ["--proxy-user", "me:secret", "--socks5-hostname", &address, &url];
    assert_eq!(text(&curl(&known)).trim(), "GET /here HTTP/1.1");
    let by_address = ["--proxy-user", "me:secret", "--socks5", &address, &url];
    assert_eq!(text(&curl(&by_address)).trim(), "GET /here HTTP/1.1");
    for wrong in ["me:Secret", "you:secret"] {
        let output = curl(&["--proxy-user", wrong, "--socks5-hostname", &address, &url]);
        assert_eq!(output.status.code(), Some(97), "CURLE_PROXY: {output:?}");
    }
    let output = curl(&["--socks5-hostname", &address, &url]);
    assert_eq!(output.status.code(), Some(97), "no password: {output:?}");
}

#[test]
fn figures_for_prometheus() {
    let to = echo().to_string();
    let proxy = Running::start(&["--to", &to, "--dashboard", "127.0.0.1:0"]);
    let link = proxy.await_line("live view at ").rsplit(' ').next().unwrap().to_owned();
    let url = link.split('#').next().unwrap().to_owned() + "metrics";
    let mut stream = proxy.connect();
    exchange(&mut stream);
    let output = curl(&["-i", &url]);
    let (head, body) = text(&output).split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let mut figures = std::collections::HashMap::new();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(figures.insert(name, value.parse::<f64>().unwrap()).is_none(), "{name} twice");
    }
    for (name, value) in [
        ("connections_open", 1.0),
        ("connections_total", 1.0),
        ("connections_max", 1024.0),
        ("bytes_total{direction=\"to_client\"}", 4.0),
        ("bytes_total{direction=\"to_upstream\"}", 4.0),
        ("accept_errors_total", 0.0),
    ] {
        assert_eq!(figures.get(format!("cellpace_proxy_{name}").as_str()), Some(&value), "{name}");
    }
    for (name, value) in [("connections_open", 1.0), ("lost_packets_total", 0.0)] {
        let name =
            format!("cellpace_{name}{{command=\"proxy\",controller=\"pace\",driver=\"gate\"}}");
        assert_eq!(figures.get(name.as_str()), Some(&value), "{name}");
    }
    let uncontrolled = "cellpace_uncontrolled_total{command=\"proxy\",reason=\"driver\"}";
    assert_eq!(figures.get(uncontrolled), Some(&0.0));
    assert_eq!(curl(&["-f", &url.replace("metrics", "x")]).status.code(), Some(22), "404");
}

#[test]
fn the_first_signal_drains_and_the_second_cuts() {
    let to = echo().to_string();
    for name in ["TERM", "INT"] {
        let proxy = Running::start(&["--to", &to, "--drain", "1h"]);
        let mut stream = proxy.connect();
        exchange(&mut stream);
        proxy.signal(name);
        proxy.await_line("taking no more connections");
        exchange(&mut stream);
        drop(stream);
        assert_eq!(proxy.code(), Some(if name == "INT" { 130 } else { 0 }), "{name}");

        let proxy = Running::start(&["--to", &to, "--drain", "1h"]);
        let mut stream = proxy.connect();
        exchange(&mut stream);
        proxy.signal(name);
        proxy.await_line("taking no more connections");
        proxy.signal(name);
        proxy.await_line("1 connection was cut");
        assert_eq!(proxy.code(), Some(1), "{name}");
    }
}

/// A server that sends on each connection until nothing more is taken, and on how many it has.
fn stuffing() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stuffed = Arc::new(AtomicUsize::new(0));
    let counter = stuffed.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let counter = counter.clone();
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                stream.set_nonblocking(true).unwrap();
                let mut quiet = 0;
                while quiet < 20 {
                    match stream.write(&[7; 1 << 16]) {
                        Ok(_) => quiet = 0,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => quiet += 1,
                        Err(_) => return,
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                counter.fetch_add(1, Ordering::Relaxed);
                stream.set_nonblocking(false).unwrap();
                let _ = stream.read(&mut [0]);
            });
        }
    });
    (address, stuffed)
}

/// Downloads in the middle of which a proxy ends as `end` has it: none may look complete.
fn are_reset(options: &[&str], count: usize, end: impl FnOnce(&mut Running)) {
    let (to, stuffed) = stuffing();
    let to = to.to_string();
    let cc = ["--to", &to, "--cc", "fixed:cwnd=20pkts"];
    let mut proxy = Running::start(&[&cc[..], options].concat());
    let mut clients: Vec<_> = (0..count).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        client.read_exact(&mut [0; 10_000]).unwrap();
    }
    let start = Instant::now();
    while stuffed.load(Ordering::Relaxed) < count {
        assert!(start.elapsed() < PATIENCE, "the server is not stopped: {options:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    end(&mut proxy);
    proxy.child.wait().unwrap();
    for mut client in clients {
        let seen = client.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert_eq!(seen, Err(ErrorKind::ConnectionReset), "{options:?}");
    }
}

const SIDES: [&str; 3] = ["client", "upstream", "both"];

fn cut_by_two_signals(proxy: &mut Running) {
    proxy.signal("TERM");
    proxy.await_line("taking no more connections");
    proxy.signal("TERM");
}

#[test]
fn downloads_that_are_cut_are_reset() {
    for side in SIDES {
        let side = ["--driver", "gate", "--control", side];
        are_reset(&[&side[..], &["--drain", "1h"]].concat(), 16, cut_by_two_signals);
        are_reset(&[&side[..], &["--drain", "10ms"]].concat(), 16, |proxy| proxy.signal("TERM"));
    }
}

#[test]
fn downloads_of_a_killed_proxy_are_reset() {
    for side in SIDES {
        let kill = |proxy: &mut Running| proxy.child.kill().unwrap();
        are_reset(&["--driver", "gate", "--control", side], 32, kill);
    }
}

/// A kernel driver under a name of its own, removed at the end.
struct KernelDriver(String);

impl KernelDriver {
    /// `None`, and a line that says why, where it cannot be.
    fn install() -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let driver = Self(format!("cp_p{:x}_{number}", std::process::id()));
        let output = driver.kernel("install");
        if !output.status.success() {
            cellpace_testing::skip(String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(driver)
    }

    fn kernel(&self, command: &str) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cellpace"));
        program.args(["kernel", command, "--name", &self.0]).output().unwrap()
    }
}

impl Drop for KernelDriver {
    fn drop(&mut self) {
        self.kernel("remove");
    }
}

#[test]
fn downloads_through_the_kernel_driver_are_reset() {
    let Some(driver) = KernelDriver::install() else { return };
    for side in SIDES {
        let options = ["--driver", "kernel", "--driver-name", &driver.0, "--control", side];
        are_reset(&[&options[..], &["--drain", "1h"]].concat(), 16, cut_by_two_signals);
        are_reset(&options, 16, |proxy| proxy.child.kill().unwrap());
    }
}

#[test]
fn a_flow_of_the_kernel_driver_can_be_watched_and_aborted() {
    let Some(driver) = KernelDriver::install() else { return };
    let driver = cellpace_tcp::KernelDriver::open(&driver.0).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // By its own descriptor, and where nobody's is in reach by the system's name for it.
    for owner in [SocketOwner::ThisProcess, SocketOwner::Unknown] {
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut peer = listener.accept().unwrap().0;
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let flow = driver.take(&socket, owner, false, &"copa".parse().unwrap(), 1).unwrap();
        assert_eq!(flow.driver(), cellpace_tcp::DriverKind::Kernel);
        let watch = flow.watch();
        let until = Instant::now() + PATIENCE;
        while watch.values().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!watch.values().unwrap().values.is_empty());
        flow.abort().unwrap();
        let outcome = flow.wait(PATIENCE);
        assert_eq!(outcome, Some(cellpace_tcp::FlowOutcome::Failed(libc::ECONNABORTED)));
        let error = peer.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        flow.abort().unwrap();
    }
}

#[test]
fn auto_says_and_writes_why_it_has_the_gate_and_the_kernel_driver_alone_is_refused() {
    let folder = program::Folder::new();
    let (json, to) = (folder.path("flows").display().to_string(), echo().to_string());
    let written = || objects(&folder.path("flows"));
    let missing = ["--driver-name", "cp_nowhere", "--to", &to];
    for (options, why) in [(&[][..], "is not installed"), (&["--share"], "--share needs the gate")]
    {
        let more = ["-v", "--json", &json, "--driver", "auto"];
        let proxy = Running::start(&[&missing[..], &more, options].concat());
        assert!(proxy.await_line("driver gate: ").contains(why), "{why}");
        exchange(&mut proxy.connect());
        eventually("written", || !written().is_empty());
        let flow = written().pop().unwrap();
        assert_eq!(flow["driver"], "gate");
        assert!(flow["driver_reason"].as_str().unwrap().contains(why), "{flow}");
        fs::remove_file(folder.path("flows")).unwrap();
    }
    let command = [&["--listen", "127.0.0.1:0", "--driver", "kernel"][..], &missing].concat();
    let output = cellpace(&command).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not installed"), "{output:?}");
}

#[test]
fn memory_is_given_back_after_a_peak() {
    if cfg!(not(target_env = "gnu")) {
        cellpace_testing::skip("not the allocator of the C library of GNU");
        return;
    }
    let to = echo().to_string();
    let limits = ["--max-connections", "4096", "--max-per-client", "none", "--cc", "cubic"];
    let proxy = Running::start(&[&["--to", &to, "--driver", "gate"], &limits[..]].concat());
    let before = resident(&proxy);
    let mut clients: Vec<_> = (0..2000).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(exchange);
    let peak = resident(&proxy);
    drop(clients);
    let start = Instant::now();
    // Half of the growth at least; the allocator by itself gives a tenth.
    while resident(&proxy) > before.midpoint(peak) {
        assert!(start.elapsed() < PATIENCE, "{peak} kB, and still {} kB", resident(&proxy));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Resident memory in kB.
fn resident(proxy: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", proxy.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn one_client_has_a_quarter_of_the_places_unless_told_otherwise() {
    let to = echo().to_string();
    for (limit, served) in [(&[][..], 4), (&["--max-per-client", "none"], 8)] {
        let limit = [&["--max-connections", "16"], limit].concat();
        let proxy = Running::start(&[&["--to", &to], &limit[..]].concat());
        let clients: Vec<_> = (0..8).map(|_| proxy.connect()).collect();
        let served_are = clients.into_iter().filter(|mut client| {
            let mut answer = [0; 4];
            client.write_all(b"ping").is_ok() && client.read_exact(&mut answer).is_ok()
        });
        assert_eq!(served_are.collect::<Vec<_>>().len(), served, "{limit:?}");
    }
}

#[test]
fn socks_for_everybody_does_not_lead_to_the_machines_own_services() {
    let port = page().port();
    for (rules, code) in [
        (&[][..], Some(97)),
        (&["--allow", "127.0.0.1", "--allow", "::1"], Some(0)),
        (&["--allow", "127.0.0.0/8,::1", "--deny", "127.0.0.1"], Some(97)),
    ] {
        let listen = ["--listen", "0.0.0.0:0", "--socks5"];
        let proxy = Running::spawn(cellpace(&[&listen[..], rules].concat()));
        let address = format!("127.0.0.1:{}", proxy.address.port());
        let url = format!("http://127.0.0.1:{port}/");
        let output = curl(&["--socks5", &address, &url]);
        assert_eq!(output.status.code(), code, "{rules:?}: {output:?}");
    }
}

/// A proxy with so few descriptors, and what else it is told.
fn with_descriptors(limit: u32, to: &str, options: &str) -> Running {
    let mut command = Command::new("sh");
    let line = format!(
        "ulimit -n {limit}; exec \"$0\" proxy --listen 127.0.0.1:0 --to {to} --max-per-client none {options}"
    );
    command.args(["-c", &line, env!("CARGO_BIN_EXE_cellpace")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Running::spawn(command)
}

#[test]
fn more_clients_than_descriptors_are_served_in_turn_and_none_is_reset() {
    for (control, each) in [("client", 4), ("both", 6)] {
        let options = format!("--driver gate --cc cubic --control {control}");
        let proxy = with_descriptors(64, &echo().to_string(), &options);
        let most = (64 - 24) / each;
        proxy.await_line(&format!("{most} connections at once and not 1024: each takes {each} of"));
        std::thread::scope(|scope| {
            for _ in 0..60 {
                scope.spawn(|| {
                    let mut stream = proxy.connect();
                    let sent = [7; 5000];
                    stream.write_all(&sent).unwrap();
                    let mut read = [0; 5000];
                    stream.read_exact(&mut read).unwrap();
                    assert_eq!(read, sent);
                });
            }
        });
    }
}

#[test]
fn out_of_descriptors_it_waits_and_does_not_spin() {
    let proxy = Running::start(&["--to", &echo().to_string(), "--max-per-client", "none"]);
    // Less than what it has counted on.
    let process = proxy.child.id().to_string();
    let lowered = Command::new("prlimit").args(["--nofile=40", "--pid", &process]).status();
    assert!(lowered.unwrap().success());
    let mut streams: Vec<_> = (0..60).map(|_| proxy.connect()).collect();
    proxy.await_line("cannot accept a connection, trying again");
    let before = ticks(proxy.child.id());
    std::thread::sleep(Duration::from_secs(1));
    let used = ticks(proxy.child.id()) - before;
    assert!(used < 50, "{used} ticks of 10 ms in a second of waiting");
    let mut last = streams.pop().unwrap();
    streams.clear();
    // Once descriptors come back, connections are taken again; some were closed for want of one.
    let start = Instant::now();
    while last.write_all(b"x").is_err() || last.read_exact(&mut [0]).is_err() {
        assert!(start.elapsed() < PATIENCE);
        last = proxy.connect();
    }
}

/// Processor time of a process, user and system.
fn ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn rules_are_printed_and_nothing_else_is_done() {
    let args = ["--listen", "8080", "--transparent", "--rules", "print", "--ports", "80,8000"];
    let output = cellpace(&[&args[..], &["--device", "eth1"]].concat()).output().unwrap();
    let rules = text(&output);
    assert!(rules.contains("tcp dport { 80, 8000 } tproxy to 127.0.0.1:8080"), "{rules}");
    assert!(rules.contains("iifname != \"eth1\" return"), "{rules}");
}

/// A client, a router and a server, each in a network namespace of its own.
struct Networks(String);

impl Networks {
    /// `None` where that is not allowed.
    fn make() -> Option<Self> {
        let networks = Self(format!("cp{}", std::process::id()));
        let ip = |line: &str| {
            let line = line.replace('@', &networks.0);
            let args = line.split_whitespace();
            let output = Command::new("ip").args(args).output();
            output.is_ok_and(|output| output.status.success())
        };
        if !["c", "r", "s"].iter().all(|name| ip(&format!("netns add @{name}"))) {
            return None;
        }
        for line in [
            "-n @r link add c0 type veth peer name r0 netns @c",
            "-n @r link add s0 type veth peer name r0 netns @s",
            "-n @r addr add 10.1.0.1/24 dev c0",
            "-n @r addr add 10.2.0.1/24 dev s0",
            "-n @c addr add 10.1.0.2/24 dev r0",
            "-n @s addr add 10.2.0.2/24 dev r0",
            "-n @r addr add fd01::1/64 dev c0 nodad",
            "-n @r addr add fd02::1/64 dev s0 nodad",
            "-n @c addr add fd01::2/64 dev r0 nodad",
            "-n @s addr add fd02::2/64 dev r0 nodad",
            "-n @r link set lo up",
            "-n @r link set c0 up",
            "-n @r link set s0 up",
            "-n @c link set r0 up",
            "-n @s link set r0 up",
            "-n @c route add default via 10.1.0.1",
            "-n @c route add default via fd01::1",
        ] {
            assert!(ip(line), "{line}");
        }
        Some(networks)
    }

    fn inside(&self, name: &str, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}{name}", self.0), program]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn said(&self, name: &str, program: &str, args: &[&str]) -> String {
        let output = self.inside(name, program, args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether the client gets the server's page.
    fn gets(&self, url: &str) -> bool {
        let args = ["-sS", "-g", "--max-time", "3", "-o", "/dev/null", url];
        self.inside("c", "curl", &args).status().unwrap().success()
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in ["c", "r", "s"] {
            let _ =
                Command::new("ip").args(["netns", "del", &format!("{}{name}", self.0)]).output();
        }
    }
}

/// Ends a program with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn connections_to_others_are_taken_and_the_rules_go_with_the_proxy() {
    let Some(networks) = Networks::make() else {
        cellpace_testing::skip("not root");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut servers = Vec::new();
    for port in ["80", "81"] {
        let bind = ["-m", "http.server", "--bind", "::", port];
        let mut server = networks.inside("s", "python3", &bind);
        servers.push(Ending(server.current_dir(folder.path()).spawn().unwrap()));
    }
    let start = Instant::now();
    let is_up = |url| {
        let args = ["-s", "-o", "/dev/null", "-g", "--max-time", "3", url];
        networks.inside("r", "curl", &args).status().unwrap().success()
    };
    while !(is_up("http://10.2.0.2:80/") && is_up("http://[fd02::2]:81/")) {
        assert!(start.elapsed() < PATIENCE, "the servers do not start");
    }
    // The router does not forward, so only a proxy can lead there.
    assert!(!networks.gets("http://10.2.0.2/"));

    let args = ["proxy", "--listen", "127.0.0.1:8080", "--listen", "[::]:8081", "--transparent"];
    let args = [&args[..], &["--rules", "apply", "--ports", "80,8081", "--verbose"]].concat();
    let proxy = networks.inside("r", env!("CARGO_BIN_EXE_cellpace"), &args);
    let proxy = Running::spawn(proxy);
    proxy.await_line("waiting at [::]:8081");
    assert!(networks.gets("http://10.2.0.2/"), "{:?}", proxy.said.lock().unwrap());
    let line = proxy.await_line("10.1.0.2:");
    assert!(line.contains(" -> 10.2.0.2:80: finished"), "{line}");
    assert!(networks.gets("http://[fd02::2]/"), "{:?}", proxy.said.lock().unwrap());
    proxy.await_line("-> [fd02::2]:80: finished");
    assert!(!networks.gets("http://10.2.0.2:81/"), "not a port of ours");
    // Whoever asks the proxy itself must not make it connect to itself.
    assert!(!networks.gets("http://[fd01::1]:8081/"));
    proxy.await_line("made to the proxy itself");
    assert!(networks.said("r", "ip", &["rule"]).contains("fwmark 0x63701f90"));
    assert!(networks.said("r", "ip", &["-6", "rule"]).contains("fwmark 0x63701f91"));

    proxy.signal("TERM");
    assert_eq!(proxy.code(), Some(0));
    assert!(!networks.said("r", "ip", &["rule"]).contains("fwmark"));
    assert!(!networks.said("r", "ip", &["-6", "rule"]).contains("fwmark"));
    assert!(!networks.said("r", "ip", &["route", "show", "table", "all"]).contains("16682924"));
    assert!(!networks.gets("http://10.2.0.2/"));
}

/// A server that says five bytes to each client.
fn greeter() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"hello"));
        }
    });
    address
}

#[track_caller]
fn greeted(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn output_that_nothing_reads_stops_no_connection_and_no_end() {
    let to = greeter().to_string();
    let args = ["--listen", "127.0.0.1:0", "--to", &to, "--cc", "copa", "-v", "--json", "-"];
    let mut child = cellpace(&args).spawn().unwrap();
    // Pipes of one page: some tens of lines.
    rustix::pipe::fcntl_setpipe_size(child.stdout.as_ref().unwrap(), 4096).unwrap();
    let mut errors = child.stderr.take().unwrap();
    rustix::pipe::fcntl_setpipe_size(&errors, 4096).unwrap();
    let mut said = Vec::new();
    let address = loop {
        let mut byte = [0];
        errors.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
        let text = String::from_utf8_lossy(&said);
        if let Some((_, rest)) = text.split_once("waiting at ")
            && let Some((address, _)) = rest.split_once('\n')
        {
            break address.parse().unwrap();
        }
    };
    for _ in 0..400 {
        greeted(address);
    }
    let proxy = Running { child, address, said: Arc::default() };
    proxy.signal("TERM");
    assert_eq!(proxy.code(), Some(0));
}

/// Objects of a file, each of which must be whole.
#[track_caller]
fn objects(path: &std::path::Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn records_survive_restarts_and_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let (records, rotated) = (folder.path().join("a.jsonl"), folder.path().join("a.1"));
    let events = folder.path().join("a.events");
    let to = greeter().to_string();
    let start = || {
        let names = [&records, &events].map(|path| path.to_str().unwrap().to_owned());
        Running::start(&["--to", &to, "--cc", "copa", "--json", &names[0], "--events", &names[1]])
    };
    let count = |path: &std::path::Path| objects(path).len();
    let mut proxy = start();
    greeted(proxy.address);
    eventually("written", || count(&records) == 1);
    proxy.child.kill().unwrap();
    proxy.child.wait().unwrap();
    // What a process that is killed in the middle of a write would leave.
    let mut file = fs::File::options().append(true).open(&records).unwrap();
    file.write_all(b"{\"schema\":").unwrap();
    let proxy = start();
    proxy.await_line("removed an incomplete last line of 10 bytes");
    greeted(proxy.address);
    eventually("appended", || count(&records) == 2);
    // Renamed, and opened anew.
    fs::rename(&records, &rotated).unwrap();
    proxy.signal("HUP");
    eventually("opened anew", || records.exists());
    greeted(proxy.address);
    eventually("written to the new file", || count(&records) == 1);
    assert_eq!(count(&rotated), 2);
    // Copied and emptied.
    fs::File::options().write(true).open(&records).unwrap().set_len(0).unwrap();
    greeted(proxy.address);
    eventually("written to the emptied file", || count(&records) == 1);
    proxy.signal("TERM");
    assert_eq!(proxy.code(), Some(0), "SIGHUP ended nothing");
    let flows = objects(&events).iter().filter(|event| event["event"] == "metrics").count();
    assert!(flows >= 3, "events of both runs: {flows}");
}

/// Length of a download that no buffers on the way hold as a whole.
const DOWNLOAD: usize = 32 << 20;

/// A server that answers `g` with a greeting, and `d` with a download.
fn greeter_with_download() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut asked = [0];
                if stream.read_exact(&mut asked).is_err() {
                    return;
                }
                let answer = if asked == *b"d" { vec![b'd'; DOWNLOAD] } else { b"hello".to_vec() };
                let _ = stream.write_all(&answer);
            });
        }
    });
    address
}

fn ask(address: SocketAddr, what: &[u8]) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    // A client waits as long as the process before takes to end and the next one to start.
    stream.set_read_timeout(Some(4 * PATIENCE))?;
    stream.write_all(what)?;
    Ok(stream)
}

/// Connects again and again, and counts what came of it.
struct Attempts {
    made: Arc<AtomicUsize>,
    stop: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Attempts {
    fn start(address: SocketAddr) -> Self {
        let (made, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (counter, stopped) = (made.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut failures = Vec::new();
            while stopped.load(Ordering::Relaxed) == 0 {
                let mut text = String::new();
                let answer = ask(address, b"g").and_then(|mut it| it.read_to_string(&mut text));
                if answer.is_err() || text != "hello" {
                    failures.push(format!("{answer:?} {text:?}"));
                }
                counter.fetch_add(1, Ordering::Relaxed);
            }
            failures
        });
        Self { made, stop, thread }
    }

    fn more(&self, count: usize) {
        let before = self.made.load(Ordering::Relaxed);
        eventually("more attempts", || self.made.load(Ordering::Relaxed) >= before + count);
    }

    #[track_caller]
    fn none_failed(self) {
        self.stop.store(1, Ordering::Relaxed);
        let failures = self.thread.join().unwrap();
        let made = self.made.load(Ordering::Relaxed);
        assert!(failures.is_empty(), "{} of {made} attempts: {failures:?}", failures.len());
        assert!(made >= 80, "{made} attempts");
    }
}

/// A download of which the first bytes have come.
fn begun_download(address: SocketAddr) -> TcpStream {
    let mut download = ask(address, b"d").unwrap();
    download.read_exact(&mut [0; 1000]).unwrap();
    download
}

#[track_caller]
fn whole(mut download: TcpStream) {
    let mut rest = Vec::new();
    download.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() + 1000, DOWNLOAD);
}

#[test]
fn a_second_process_takes_over_and_refuses_nothing() {
    let to = greeter_with_download().to_string();
    let options = ["--to", &to, "--cc", "cubic", "--drain", "5m"];
    let old = Running::start(&options);
    let at = old.address.to_string();
    let attempts = Attempts::start(old.address);
    let download = begun_download(old.address);
    attempts.more(30);
    let new = Running::spawn(cellpace(&[&["--listen", &at], &options[..]].concat()));
    new.await_line("another process listens");
    attempts.more(30);
    old.signal("TERM");
    old.await_line("taking no more connections");
    attempts.more(30);
    whole(download);
    assert_eq!(old.code(), Some(0));
    attempts.more(30);
    attempts.none_failed();
}

/// Has a program find its standard input as descriptor 3, as systemd passes sockets.
const PASS: &str = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";

/// A proxy at a socket that it gets as descriptor 3, as from systemd.
fn socket_activated(listener: &TcpListener, notify: &std::path::Path, options: &[&str]) -> Running {
    let at = listener.local_addr().unwrap().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", PASS, env!("CARGO_BIN_EXE_cellpace"), "proxy", "--listen", &at]);
    command.args(options).env("NOTIFY_SOCKET", notify);
    let socket = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
    command.stdin(socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::spawn(command)
}

#[test]
fn a_restart_at_a_passed_socket_refuses_nothing() {
    cellpace_testing::heed_signals();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut bytes = [0; 100];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).trim_end().to_owned()
    };
    let to = greeter_with_download().to_string();
    let options = ["--to", &to, "--cc", "cubic", "--drain", "5m"];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The first client comes before the first process.
    let attempts = Attempts::start(address);
    let old = socket_activated(&listener, &path, &options);
    assert_eq!(told(), "READY=1");
    let download = begun_download(address);
    attempts.more(40);
    old.signal("TERM");
    assert_eq!(told(), "STOPPING=1");
    // It goes on serving while the download is open, as no other process does.
    attempts.more(40);
    whole(download);
    assert_eq!(old.code(), Some(0));
    let _new = socket_activated(&listener, &path, &options);
    assert_eq!(told(), "READY=1");
    attempts.more(40);
    attempts.none_failed();
}

/// Says its name to a client that says something.
fn named_server(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {
                    let _ = stream.write_all(name.as_bytes());
                }
            });
        }
    });
    address
}

fn says(stream: &mut TcpStream, name: &str) {
    stream.write_all(b"?").unwrap();
    let mut answer = vec![0; name.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, name.as_bytes());
}

#[test]
fn a_hangup_changes_the_target_and_the_controller_of_new_connections() {
    let folder = program::Folder::new();
    let (config, json) = (folder.path("proxy.conf"), folder.path("flows.jsonl"));
    let write = |to: SocketAddr, cc: &str, more: &str| {
        let text = format!("# mine\n--to {to}\n--cc {cc}\n--json {}\n{more}", json.display());
        fs::write(&config, text).unwrap();
    };
    let (one, two) = (named_server("one"), named_server("two"));
    write(one, "cubic", "");
    let manager = std::os::unix::net::UnixDatagram::bind(folder.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut bytes = [0; 100];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).lines().next().unwrap().to_owned()
    };
    let mut command = cellpace(&["--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    command.env("NOTIFY_SOCKET", folder.path("notify"));
    let proxy = Running::spawn(command);
    assert_eq!(told(), "READY=1");
    let mut old = proxy.connect();
    says(&mut old, "one");
    let wrong = [
        (two, "cubicc", "", "proxy.conf:3: --cc: "),
        (two, "copa", "--no-such-option\n", "proxy.conf:5: "),
        (two, "copa", "--socks5\n", "proxy.conf:5: "),
        (two, "copa", "--dashboard\n", "proxy.conf:5: --dashboard: only a restart changes it"),
    ];
    for (to, cc, more, said) in wrong {
        write(to, cc, more);
        proxy.signal("HUP");
        assert!(proxy.await_line(said).ends_with("what was in force stays so"));
        assert_eq!([told(), told()], ["RELOADING=1", "READY=1"]);
        says(&mut proxy.connect(), "one");
    }
    // The ended connections of this client count towards its limit until the proxy has noticed their end.
    write(two, "copa", "--max-connections 9\n--max-per-client none\n");
    proxy.signal("HUP");
    proxy.await_line("read again; new connections are under copa");
    assert_eq!([told(), told()], ["RELOADING=1", "READY=1"]);
    let mut new = proxy.connect();
    says(&mut new, "two");
    says(&mut old, "one");
    write(two, "copa", "--share-of 0%\n");
    proxy.signal("HUP");
    assert_eq!([told(), told()], ["RELOADING=1", "READY=1"]);
    says(&mut proxy.connect(), "two");
    drop((old, new));
    proxy.signal("TERM");
    assert_eq!(proxy.code(), Some(0));
    let logged = fs::read_to_string(&json).unwrap();
    let logged: Vec<serde_json::Value> =
        logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let with = |cc: &str| logged.iter().filter(|flow| flow["cc"] == cc).count();
    assert_eq!((with("cubic"), with("copa")), (5, 1), "{logged:?}");
}

#[test]
fn fewer_connections_after_a_reload_are_those_that_wait() {
    let folder = program::Folder::new();
    let config = folder.path("proxy.conf");
    let to = named_server("one");
    let write = |most: u32| {
        fs::write(&config, format!("--to {to}\n--max-connections {most}\n--max-per-client none\n"))
            .unwrap();
    };
    write(3);
    let args = ["--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let proxy = Running::spawn(cellpace(&args));
    let mut open: Vec<_> = (0..3).map(|_| proxy.connect()).collect();
    open.iter_mut().for_each(|stream| says(stream, "one"));
    write(1);
    proxy.signal("HUP");
    proxy.await_line("read again");
    open.clear();
    let mut first = proxy.connect();
    says(&mut first, "one");
    let mut waits = proxy.connect();
    waits.write_all(b"?").unwrap();
    waits.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let answer = waits.read(&mut [0; 3]);
    assert!(answer.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is the second");
    says(&mut first, "one");
    drop(first);
    waits.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 3];
    waits.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"one");
}

#[test]
fn a_file_of_options_is_refused_with_its_line() {
    let folder = program::Folder::new();
    let config = folder.path("proxy.conf");
    for (text, said) in [
        ("--to 127.0.0.1:9\n--idle soon\n", "proxy.conf:2: "),
        ("--to 127.0.0.1:9\n\nidle 9s\n", "proxy.conf:3: write an option"),
        ("--to 127.0.0.1:9\n--cc pase\n", "proxy.conf:2: --cc: "),
    ] {
        fs::write(&config, text).unwrap();
        let said_now = refused(&["--listen", "0", "--config", config.to_str().unwrap()]);
        assert!(said_now.contains(said), "{said_now}");
    }
    assert!(
        refused(&["--config", "/nowhere/at/all"])
            .contains("--config: there is no file `/nowhere/at/all`")
    );
}

#[test]
fn a_passed_socket_that_no_option_names_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = greeter().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", PASS, env!("CARGO_BIN_EXE_cellpace"), "proxy"]);
    command.args(["--listen", "127.0.0.1:0", "--to", &to]);
    let output = command.stdin(std::os::fd::OwnedFd::from(listener)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the service manager passed a socket for 127.0.0.1:"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_proxy_does_not_forward_to_itself() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (at, itself) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
    for to in [&at, &itself] {
        let said = refused(&["--listen", &at, "--to", to]);
        assert!(said.contains("is where this proxy listens"), "{said}");
    }
    let said = refused(&["--listen", &format!("0.0.0.0:{port}"), "--to", &at]);
    assert!(said.contains("is where this proxy listens"), "{said}");
}

#[test]
fn a_user_who_asks_for_a_low_port_learns_what_that_takes() {
    if !is_root() {
        cellpace_testing::skip("not root");
        return;
    }
    let folder = open_folder();
    let user = "setpriv --reuid 65534 --regid 65534 --clear-groups --";
    // An address that can be bound to is not always this machine's: the target is none of its own.
    let nonlocal = "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind";
    let proxy = "proxy --listen 0.0.0.0:80 --to 192.0.2.1:80 --cc copa";
    let proxy = format!("{nonlocal}; exec timeout 20 {user} ./cellpace {proxy}");
    let outcome = unshared(&folder, &["--net"], &proxy);
    outcome.complains(1, "ports below 1024 need CAP_NET_BIND_SERVICE");
    assert!(outcome.stderr.contains("listen at a higher port"), "{}", outcome.stderr);
}

#[test]
fn without_rules_a_transparent_proxy_says_who_must_make_them() {
    if !is_root() {
        cellpace_testing::skip("not root");
        return;
    }
    let proxy = Running::start(&["--transparent", "--cc", "copa"]);
    let line = proxy.await_line("only connections that rules of yours redirect here");
    assert!(line.contains("`--rules print`") && line.contains("`--rules apply`"), "{line}");
}

#[test]
fn a_target_that_does_not_answer_is_told_of_without_v() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let proxy = Running::start(&["--to", &closed, "--cc", "copa"]);
    let mut stream = proxy.connect();
    let _ = stream.read(&mut [0]);
    let line = proxy.await_line("a client was not served");
    assert!(line.contains(&closed) && line.contains("refused"), "{line}");
}
