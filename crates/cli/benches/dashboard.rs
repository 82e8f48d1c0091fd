//! What `--dashboard` costs with real connections: `cellpace proxy` with thousands of them over loopback,
//! each with some data a second, while nobody looks and while one page does.
//!
//! `CONNECTIONS=2000` takes another number; each needs two descriptors here and two in the proxy.

#![allow(missing_docs, reason = "a benchmark has no users")]

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::{self, BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    const CONNECTIONS: usize = 4_000;
    /// Written to each connection once a second. Nobody reads it: it fits into the sockets' buffers.
    const MESSAGE: [u8; 500] = [0; 500];
    const MEASURED: Duration = Duration::from_secs(15);

    /// A running `cellpace proxy`; it ends with this.
    struct Proxy {
        child: Child,
        listens: SocketAddr,
        live: SocketAddr,
        token: String,
    }

    impl Drop for Proxy {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    pub(super) fn main() -> io::Result<()> {
        let wanted = std::env::var("CONNECTIONS").ok().and_then(|count| count.parse().ok());
        let count = wanted.unwrap_or(CONNECTIONS);
        let server = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Proxy::start(server.local_addr()?, count)?;
        let mut clients = Vec::new();
        let mut served = Vec::new();
        for _ in 0..count {
            clients.push(TcpStream::connect(proxy.listens)?);
            served.push(server.accept()?.0);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        let writing = thread::spawn(move || write_to_all(&served, &stop));
        thread::sleep(Duration::from_secs(3));
        let nobody = proxy.cost()?;
        let page = proxy.looked_at()?;
        println!(
            "proxy, {count} connections with {} bytes a second each, in % of a core:\n  \
             nobody looks: {:.2}, of which for the history {:.3}\n  \
             one page:     {:.2}, of which for the page and the history {:.2} ({} kB/s)",
            MESSAGE.len(),
            nobody.all,
            nobody.live,
            page.0.all,
            page.0.live,
            page.1 / MEASURED.as_secs() / 1000,
        );
        is_over.store(true, Ordering::Relaxed);
        let _ = writing.join();
        drop(clients);
        Ok(())
    }

    /// In percent of a core: the whole program, and its threads for the live view.
    struct Cost {
        all: f64,
        live: f64,
    }

    impl Proxy {
        fn start(to: SocketAddr, connections: usize) -> io::Result<Self> {
            let (to, most) = (to.to_string(), connections.to_string());
            let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
            command.args(["proxy", "--listen", "0", "--to", &to, "--dashboard", "0"]);
            command.args(["--max-connections", &most, "--max-per-client", "none"]);
            let mut child = command.stderr(Stdio::piped()).spawn()?;
            let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let (mut listens, mut link) = (None, None);
            for line in BufReader::new(stderr).lines() {
                let line = line?;
                let word = |start: &str| {
                    line.split_whitespace()
                        .find_map(|word| word.strip_prefix(start))
                        .map(str::to_owned)
                };
                link = link.or_else(|| word("http://"));
                let at =
                    line.split_whitespace().find_map(|word| word.trim_matches(',').parse().ok());
                listens = listens.or(at);
                if listens.is_some() && link.is_some() {
                    break;
                }
            }
            let unclear = || io::Error::other("the proxy does not say where it listens");
            let link = link.ok_or_else(unclear)?;
            let (live, token) = link.split_once("/#k=").ok_or_else(unclear)?;
            let live = live.parse().map_err(|_| unclear())?;
            Ok(Self { child, listens: listens.ok_or_else(unclear)?, live, token: token.to_owned() })
        }

        /// Processor time up to now: of all threads, and of those of the live view.
        fn times(&self) -> io::Result<[Duration; 2]> {
            let mut times = [Duration::ZERO; 2];
            for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
                let task = task?.path();
                let name = fs::read_to_string(task.join("comm"))?;
                let spent = fs::read_to_string(task.join("schedstat"))?;
                let spent = spent.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
                times[0] += Duration::from_nanos(spent);
                if ["cellpace-live", "cellpace-histor"].contains(&name.trim()) {
                    times[1] += Duration::from_nanos(spent);
                }
            }
            Ok(times)
        }

        fn cost(&self) -> io::Result<Cost> {
            let (start, before) = (Instant::now(), self.times()?);
            thread::sleep(MEASURED);
            let (after, wall) = (self.times()?, start.elapsed().as_secs_f64());
            let [all, live] =
                [0, 1].map(|of| 100.0 * after[of].saturating_sub(before[of]).as_secs_f64() / wall);
            Ok(Cost { all, live })
        }

        /// The cost while one page follows, and the bytes that it was sent.
        fn looked_at(&self) -> io::Result<(Cost, u64)> {
            let mut stream = TcpStream::connect(self.live)?;
            let key = format!("Host: localhost\r\nAuthorization: Bearer {}", self.token);
            write!(stream, "GET /api/events?rows=100&since=0 HTTP/1.1\r\n{key}\r\n\r\n")?;
            let reading = thread::spawn(move || {
                let (mut bytes, mut part) = (0, [0; 65536]);
                let end = Instant::now() + MEASURED;
                while Instant::now() < end {
                    bytes += stream.read(&mut part).unwrap_or(0) as u64;
                }
                (bytes, stream)
            });
            let cost = self.cost()?;
            let (bytes, _stream) = reading.join().map_err(|_| io::ErrorKind::Other)?;
            Ok((cost, bytes))
        }
    }

    /// Writes once a second to each, spread over the second.
    fn write_to_all(served: &[TcpStream], is_over: &AtomicBool) {
        let parts = served.chunks(served.len().div_ceil(100).max(1));
        for part in parts.clone().cycle() {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            for mut stream in part {
                // A connection that is gone is not written to.
                let _ = stream.write(&MESSAGE);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
