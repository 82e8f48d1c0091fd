//! Unmodified programs under `cellpace run`, their clients behind `cellpace link`: what they send
//! arrives as it was, and the queue at the bottleneck stays short.
//!
//! Where a program is missing, or links are not to be had, the tests say so and pass. The common
//! programs run with few bytes in the ordinary tests; `./dev test --all` runs everything.

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::program::{Folder, number};
use serde_json::Value;

const PYTHON: &str = "/usr/bin/python3";
const CELLPACE: &str = env!("CARGO_BIN_EXE_cellpace");
/// Port to wait for, in the role of a client.
const WAIT: &str = "REAL_TEST_WAIT";

/// What the programs are asked for.
#[derive(Clone, Copy)]
struct Load {
    /// Sizes of the files that are fetched one after another, in bytes.
    alone: &'static [usize],
    /// The size of the files that are fetched at once.
    together: usize,
    /// The p95 of the queue's delay, in ms, that a single transfer stays below.
    bound: f64,
    /// The same for those at once: each keeps packets of its own in the queue, and all start
    /// together.
    bound_together: f64,
}

const QUICK: Load = Load {
    alone: &[0, 1, 1_000_000, 10_000_000],
    together: 300_000,
    bound: 100.0,
    bound_together: 250.0,
};

const FULL: Load = Load {
    alone: &[0, 1, 1_000_000, 50_000_000],
    together: 1_000_000,
    bound: 60.0,
    bound_together: 150.0,
};

/// Transfers at once.
const TOGETHER: usize = 20;

// The client's means.

/// Not a test: waits inside the link until a server on the far side listens.
#[test]
fn role() {
    let Ok(port) = std::env::var(WAIT) else { return };
    let host: IpAddr = std::env::var("CELLPACE_HOST").unwrap().parse().unwrap();
    let address = (host, port.parse().unwrap()).into();
    let until = Instant::now() + Duration::from_secs(15);
    while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
        assert!(Instant::now() < until, "nobody listens at {address}");
        sleep(Duration::from_millis(50));
    }
    std::process::exit(0);
}

/// A shell command that waits until the far side listens.
fn wait_for(port: u16) -> String {
    let own = std::env::current_exe().unwrap();
    format!(
        "{WAIT}={port} '{}' --exact real_programs::role --nocapture --quiet >/dev/null || exit 9\n",
        own.display()
    )
}

// The tests' means.

/// Links are used one at a time: several would measure each other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether links can be had and these programs are there; says so if not.
fn possible(programs: &[&str]) -> bool {
    static LINKS: OnceLock<Option<String>> = OnceLock::new();
    if let Some(missing) = programs.iter().find(|program| place(program).is_none()) {
        cellpace_testing::skip(format_args!("{missing} is not installed"));
        return false;
    }
    let why = LINKS.get_or_init(|| {
        let outcome = Folder::new().run("link --quiet --rtt 0ms -- true");
        (outcome.code != Some(0)).then_some(outcome.stderr)
    });
    if let Some(why) = why {
        cellpace_testing::skip(format_args!("no links here: {why}"));
    }
    why.is_none()
}

/// Whether we are root, as these servers want; says so if not.
fn is_root() -> bool {
    let root = fs::metadata("/proc/self")
        .is_ok_and(|facts| std::os::unix::fs::MetadataExt::uid(&facts) == 0);
    if !root {
        cellpace_testing::skip("not root");
    }
    root
}

/// Where a program is. Servers are often not in a user's search path.
fn place(program: &str) -> Option<String> {
    if program.starts_with('/') {
        return fs::exists(program).unwrap().then(|| program.to_owned());
    }
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    folders
        .iter()
        .map(|folder| format!("{folder}/{program}"))
        .find(|path| fs::exists(path).unwrap())
}

fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

/// Bytes that repeat nowhere, so that a piece in the wrong place shows.
fn content(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ size as u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// A server on the far side of a link, and how a client gets a file of it.
struct Site {
    name: String,
    folder: Folder,
    port: u16,
    /// The server's command.
    server: String,
    /// Shell: gets `$FILE` into `$TO`.
    fetch: String,
    /// Shell: gets the file `$FILE` into `$TO-1` to `$TO-20` at once.
    fetch_together: String,
    cc: String,
}

impl Site {
    /// A folder with files to be fetched, readable for servers that give up root.
    fn new(name: &str, load: Load) -> Self {
        let folder = Folder::new();
        let root = folder.path(".");
        fs::set_permissions(&root, PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path("www")).unwrap();
        fs::create_dir(folder.path("got")).unwrap();
        fs::create_dir(folder.path("empty")).unwrap();
        for size in load.alone.iter().chain([&load.together]) {
            folder.write(&format!("www/{size}"), content(*size));
        }
        let fetch_together = format!(
            "all=$TO\nfor i in $(seq {TOGETHER}); do TO=$all-$i; (fetch || echo $i >>failed) & done; wait"
        );
        Self {
            name: name.to_owned(),
            folder,
            port: free_port(),
            server: String::new(),
            fetch: String::new(),
            fetch_together,
            cc: "copa".to_owned(),
        }
    }

    /// Sets the server's command and the client's; `{dir}` and `{port}` are replaced in both.
    fn with(mut self, server: &str, fetch: &str) -> Self {
        self.server = self.fill(server);
        self.fetch = self.fill(fetch);
        self
    }

    fn config(self, name: &str, text: &str) -> Self {
        self.folder.write(name, self.fill(text));
        self
    }

    fn fill(&self, text: &str) -> String {
        let folder = self.folder.path("");
        let folder = folder.to_str().unwrap().trim_end_matches('/');
        text.replace("{dir}", folder).replace("{port}", &self.port.to_string())
    }

    /// The server's command under the controller, or plain.
    fn far(&self) -> String {
        let log = self.folder.path("server.log");
        let (log, server) = (log.display(), &self.server);
        if self.cc == "plain" {
            return format!("exec {server} >>'{log}' 2>&1 </dev/null");
        }
        let flows = self.folder.path("flows.jsonl");
        let run = format!("run --cc {} --drain 2s --json '{}'", self.cc, flows.display());
        format!("exec '{CELLPACE}' {run} -- {server} >>'{log}' 2>&1 </dev/null")
    }

    /// Runs a shell script inside a link with the server on the far side; the link's figures.
    #[track_caller]
    fn over_link(&self, options: &str, script: &str) -> Value {
        let script = format!("fetch() {{ {}\n}}\n{}{script}", self.fetch, wait_for(self.port));
        let far = self.far();
        let mut args: Vec<&str> = vec!["link", "--quiet", "--json", "link.json"];
        args.extend(options.split_whitespace());
        args.extend(["--far", &far, "--", "sh", "-c", &script]);
        let outcome = self.folder.run_args(args);
        assert_eq!(outcome.code, Some(0), "{}: {}{}", self.name, outcome.stderr, self.log());
        if !outcome.stderr.is_empty() {
            eprintln!("{}: {}", self.name, outcome.stderr.trim_end());
        }
        serde_json::from_slice(&self.folder.read("link.json")).unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("server.log")).unwrap_or_default()
    }

    /// Connections that were taken over so far, as the launcher tells.
    fn flows(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path("flows.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The most that one connection sent, in bytes.
    fn largest_flow(&self) -> f64 {
        self.flows().iter().map(|flow| number(flow, "/sent_bytes")).fold(0.0, f64::max)
    }

    #[track_caller]
    fn arrived(&self, file: &str, size: usize) {
        let path = self.folder.path(&format!("got/{file}"));
        let got = fs::read(&path).unwrap_or_else(|error| panic!("{} {file}: {error}", self.name));
        let right = blake3::hash(&got) == blake3::hash(&content(size));
        assert!(right, "{}: {} bytes of {file} are not what was sent", self.name, got.len());
    }

    /// Fetches everything, one after another and at once, and checks what arrived and the queue.
    #[track_caller]
    fn serves(&self, load: Load) {
        let turn = turn();
        let [alone, together] = [self.fetches_alone(load), self.fetches_together(load)];
        drop(turn);
        assert!(alone < load.bound, "{}: {alone} ms", self.name);
        assert!(together < load.bound_together, "{}: {together} ms", self.name);
    }

    #[track_caller]
    fn fetches_alone(&self, load: Load) -> f64 {
        let sizes: Vec<String> = load.alone.iter().map(usize::to_string).collect();
        let script = format!(
            "for FILE in {}; do TO=got/$FILE; fetch || exit 3; touch $TO; done",
            sizes.join(" ")
        );
        let started = Instant::now();
        let json = self.over_link(LINK, &script);
        for size in load.alone {
            self.arrived(&size.to_string(), *size);
        }
        let largest = *load.alone.iter().max().unwrap();
        if self.cc != "plain" {
            assert!(self.largest_flow() >= largest as f64, "{}: not taken over", self.name);
        }
        self.queue("alone", &json, 0, started)
    }

    #[track_caller]
    fn fetches_together(&self, load: Load) -> f64 {
        let script =
            format!("FILE={}; TO=got/t; {}\n[ ! -e failed ]", load.together, self.fetch_together);
        let started = Instant::now();
        let json = self.over_link(LINK, &script);
        for index in 1..=TOGETHER {
            self.arrived(&format!("t-{index}"), load.together);
        }
        self.queue("20 at once", &json, 0, started)
    }

    /// The p95 of the queue's delay in a direction, said.
    fn queue(&self, what: &str, json: &Value, run: usize, started: Instant) -> f64 {
        let figure = |name| number(json, &format!("/runs/{run}/queue_delay_ms/{name}"));
        let (median, p95) = (figure("p50"), figure("p95"));
        eprintln!(
            "{} under {}, {what}: queue p50 {median:.1} ms, p95 {p95:.1} ms, in {:.1} s, {} flows",
            self.name,
            self.cc,
            started.elapsed().as_secs_f64(),
            self.flows().len(),
        );
        p95
    }
}

const LINK: &str = "--trace constant:50mbit --rtt 20ms";
const CURL: &str = "curl -sS -f -o $TO http://$CELLPACE_HOST:{port}/$FILE";

// nginx.

fn nginx(name: &str, load: Load, http: &str, server: &str) -> Site {
    let config = format!(
        "daemon off; worker_processes 4; user root; pid {{dir}}/pid; error_log {{dir}}/error.log;
         events {{ worker_connections 512; }}
         http {{
           access_log off; default_type application/octet-stream; {http}
           client_body_temp_path {{dir}}/t1; proxy_temp_path {{dir}}/t2;
           fastcgi_temp_path {{dir}}/t3; uwsgi_temp_path {{dir}}/t4; scgi_temp_path {{dir}}/t5;
           server {{ {server} root {{dir}}/www; }}
         }}"
    );
    let nginx = "/usr/sbin/nginx -e {dir}/error.log -c {dir}/nginx.conf";
    Site::new(name, load).config("nginx.conf", &config).with(nginx, CURL)
}

fn nginx_sendfile(load: Load) -> Site {
    nginx("nginx, sendfile", load, "sendfile on; tcp_nopush on;", "listen {port};")
}

fn nginx_without_sendfile(load: Load) -> Site {
    nginx("nginx, no sendfile", load, "sendfile off;", "listen {port};")
}

/// HTTP/2 over TLS: the files at once come in one connection.
fn nginx_http2(load: Load) -> Site {
    let tls = "listen {port} ssl http2; ssl_certificate {dir}/cert.pem;
               ssl_certificate_key {dir}/key.pem;";
    let site = nginx("nginx, HTTP/2", load, "sendfile on;", tls);
    certificate(&site.folder);
    let url = site.fill("https://$CELLPACE_HOST:{port}/$FILE");
    let files: String = (1..=TOGETHER).fold(String::new(), |mut text, index| {
        write!(text, " -o $TO-{index} {url}").unwrap();
        text
    });
    Site {
        fetch: format!("curl --http2 -k -sS -f -w '%{{http_version}}\\n' -o $TO {url} >>versions"),
        fetch_together: format!("curl --http2 -k -sS --no-progress-meter -f -Z{files}"),
        ..site
    }
}

fn certificate(folder: &Folder) {
    let mut openssl = Command::new("openssl");
    openssl.args("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test".split(' '));
    openssl.arg("-keyout").arg(folder.path("key.pem")).arg("-out").arg(folder.path("cert.pem"));
    assert!(openssl.output().unwrap().status.success());
}

#[test]
fn nginx_with_sendfile() {
    if possible(&["nginx", "curl"]) {
        nginx_sendfile(QUICK).serves(QUICK);
    }
}

#[test]
fn nginx_without_sendfile_calls() {
    if possible(&["nginx", "curl"]) {
        nginx_without_sendfile(QUICK).serves(QUICK);
    }
}

#[test]
fn nginx_with_http2_over_tls() {
    if possible(&["nginx", "curl", "openssl"]) {
        let site = nginx_http2(QUICK);
        site.serves(QUICK);
        assert_eq!(site.folder.read("versions"), b"2\n".repeat(QUICK.alone.len()));
    }
}

#[test]
#[ignore = "slow: 50 MB through each"]
fn nginx_with_50_mb() {
    if possible(&["nginx", "curl", "openssl"]) {
        nginx_sendfile(FULL).serves(FULL);
        nginx_without_sendfile(FULL).serves(FULL);
        nginx_http2(FULL).serves(FULL);
    }
}

/// Workers are replaced, and the server ends, while they deliver.
#[test]
fn nginx_reloads_and_ends_during_downloads() {
    if possible(&["nginx", "curl"]) {
        let site = nginx_sendfile(QUICK);
        let script = "FILE=10000000; TO=got/before; (fetch || touch failed) & sleep 0.3
            kill -HUP $(cat pid); sleep 0.5
            TO=got/after; (fetch || touch failed) & sleep 0.3
            kill -QUIT $(cat pid); wait; sleep 1; [ ! -e failed ]";
        let _turn = turn();
        site.over_link(LINK, script);
        site.arrived("before", 10_000_000);
        site.arrived("after", 10_000_000);
        let full = |flow: &&Value| number(flow, "/sent_bytes") > 1e7;
        assert_eq!(site.flows().iter().filter(full).count(), 2, "{:?}", site.flows());
    }
}

/// Without a controller, the same transfers fill the queue that it keeps short.
#[test]
#[ignore = "slow: 50 MB twice"]
fn plain_nginx_fills_the_queue() {
    if possible(&["nginx", "curl"]) {
        let _turn = turn();
        let controlled = nginx_sendfile(FULL).fetches_alone(FULL);
        let plain = Site { cc: "plain".to_owned(), ..nginx_sendfile(FULL) };
        let server = plain.fill(&cubic(&plain.server));
        let cubic = Site { server, ..plain };
        let filled = cubic.fetches_alone(FULL);
        assert!(filled > 4.0 * controlled, "{filled} ms plain, {controlled} ms controlled");
    }
}

/// The command with `cubic` as the kernel's controller, whatever is usual on the machine.
fn cubic(server: &str) -> String {
    // nginx has no option for it; its sockets inherit that of the listening one, which Python opens.
    let script = "import os, socket, sys
listener = socket.create_server((\"0.0.0.0\", int(sys.argv[1])), backlog=100)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b\"cubic\")
os.set_inheritable(listener.fileno(), True)
os.environ[\"NGINX\"] = str(listener.fileno()) + \";\"
os.execv(sys.argv[2], sys.argv[2:])";
    format!("{PYTHON} -c '{script}' {{port}} {server}")
}

// Other HTTP servers.

fn python(load: Load) -> Site {
    let server =
        "{python} -u -m http.server {port} --directory {dir}/www".replace("{python}", PYTHON);
    Site::new("Python's http.server", load).with(&server, CURL)
}

#[test]
fn python_http_server() {
    if possible(&[PYTHON, "curl"]) {
        python(QUICK).serves(QUICK);
    }
}

#[test]
#[ignore = "slow: 50 MB"]
fn python_http_server_with_50_mb() {
    if possible(&[PYTHON, "curl"]) {
        python(FULL).serves(FULL);
    }
}

#[test]
#[ignore = "slow: 50 MB"]
fn lighttpd() {
    if possible(&["lighttpd", "curl"]) {
        let config =
            "server.document-root = \"{dir}/www\"\nserver.port = {port}\nserver.max-worker = 2\n";
        let site = Site::new("lighttpd", FULL).config("lighttpd.conf", config);
        site.with("/usr/sbin/lighttpd -D -f {dir}/lighttpd.conf", CURL).serves(FULL);
    }
}

/// A process per connection.
#[test]
#[ignore = "slow: 50 MB"]
fn mini_httpd() {
    if possible(&["mini_httpd", "curl"]) {
        let server = "/usr/sbin/mini_httpd -D -p {port} -d {dir}/www -u root -i {dir}/pid";
        Site::new("mini_httpd", FULL).with(server, CURL).serves(FULL);
    }
}

// Files.

/// Two connections per file; several processes per client, with rights given up and chroot.
#[test]
#[ignore = "slow: 50 MB"]
fn vsftpd() {
    // The package makes the user that it takes strangers for.
    if !possible(&["vsftpd", "curl", "/srv/ftp"]) || !is_root() {
        return;
    }
    let config = "listen=YES\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\n\
                  anon_root={dir}/www\nsecure_chroot_dir={dir}/empty\nseccomp_sandbox=NO\n\
                  nopriv_user=nobody\nftp_username=ftp\nxferlog_enable=NO\n";
    let site = Site::new("vsftpd", FULL).config("vsftpd.conf", config);
    let fetch = "curl -sS -f -o $TO ftp://$CELLPACE_HOST:{port}/$FILE";
    site.with("/usr/sbin/vsftpd {dir}/vsftpd.conf", fetch).serves(FULL);
}

/// An sshd, and how a client gets files of it.
fn sshd(load: Load) -> Site {
    let config = "Port {port}\nHostKey {dir}/key\nAuthorizedKeysFile {dir}/key.pub\n\
                  PidFile {dir}/pid\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
                  MaxStartups 100\nSubsystem sftp internal-sftp\n";
    let site = Site::new("OpenSSH sftp", load).config("sshd.conf", config);
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(site.folder.path("key"));
    assert!(keygen.status().unwrap().success());
    let fetch = "sftp {options} root@$CELLPACE_HOST:{dir}/www/$FILE $TO";
    let fetch = fetch.replace("{options}", SFTP);
    site.with("/usr/sbin/sshd -D -e -f {dir}/sshd.conf", &fetch)
}

const SFTP: &str = "-q -i {dir}/key -P {port} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
                    -o UserKnownHostsFile=/dev/null";

/// sshd keeps its rights in a process of its own, in this folder, which packages make at boot.
fn sshd_possible() -> bool {
    let possible = possible(&["sshd", "sftp", "ssh-keygen"]) && is_root();
    possible && fs::create_dir_all("/run/sshd").is_ok()
}

#[test]
#[ignore = "slow: 50 MB"]
fn openssh_sftp() {
    if sshd_possible() {
        sshd(FULL).serves(FULL);
    }
}

// Uploads: the client is under the controller.

/// The command of a client under the controller, and where its flows are told.
fn under_control(site: &Site, command: &str) -> String {
    let command = site.fill(command);
    let run = site.fill("run --cc copa --out {port} --json up.jsonl");
    format!("'{CELLPACE}' {run} -- {command} || exit 4\n")
}

#[track_caller]
fn uploads(site: &Site, script: &str, size: usize) -> (f64, usize) {
    let _turn = turn();
    let started = Instant::now();
    let json = site.over_link(&format!("{LINK} --uplink constant:50mbit"), script);
    let got = site.folder.read("got/up");
    assert!(got == content(size), "{}: {} bytes arrived", site.name, got.len());
    let p95 = site.queue("upload", &json, 1, started);
    let flows = fs::read_to_string(site.folder.path("up.jsonl")).unwrap_or_default();
    (p95, flows.lines().count())
}

const UPLOAD: usize = 30_000_000;

#[test]
#[ignore = "slow: 30 MB"]
fn an_upload_by_sftp_under_the_controller() {
    if sshd_possible() {
        let site =
            Site { name: "sftp put, server".to_owned(), cc: "plain".to_owned(), ..sshd(FULL) };
        site.folder.write("up", content(UPLOAD));
        site.folder.write("batch", site.fill("put up {dir}/got/up\n"));
        let command = format!("sftp -b batch {SFTP} root@$CELLPACE_HOST");
        let (p95, flows) = uploads(&site, &under_control(&site, &command), UPLOAD);
        assert_eq!(flows, 1);
        assert!(p95 < FULL.bound, "{p95} ms");
    }
}

/// A server in Python that keeps what it is sent, and the same as a client.
const RECEIVER: &str = "import http.server, shutil, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_PUT(self):
        left = int(self.headers['Content-Length'])
        if self.headers.get('Expect'):
            self.send_response_only(100)
            self.end_headers()
        with open('got' + self.path, 'wb') as file:
            while left:
                piece = self.rfile.read(min(left, 1 << 16))
                file.write(piece)
                left -= len(piece)
        self.send_response(201)
        self.send_header('Content-Length', '0')
        self.end_headers()
http.server.ThreadingHTTPServer(('0.0.0.0', int(sys.argv[1])), Handler).serve_forever()
";

const SENDER: &str = "import http.client, os, sys
connection = http.client.HTTPConnection(os.environ['CELLPACE_HOST'], int(sys.argv[1]))
size = {'Content-Length': os.path.getsize('up')}
connection.request('PUT', '/up', open('up', 'rb'), size)
sys.exit(connection.getresponse().status != 201)
";

fn receiver(name: &str) -> Site {
    let server = format!("{PYTHON} {{dir}}/receiver.py {{port}}");
    let site = Site { cc: "plain".to_owned(), ..Site::new(name, QUICK) };
    site.folder.write("up", content(UPLOAD));
    site.folder.write("sender.py", SENDER);
    site.config("receiver.py", RECEIVER).with(&server, "true")
}

#[test]
#[ignore = "slow: 30 MB"]
fn an_upload_by_python_under_the_controller() {
    if possible(&[PYTHON]) {
        let site = receiver("PUT by Python, server");
        let command = format!("{PYTHON} sender.py {{port}}");
        let (p95, flows) = uploads(&site, &under_control(&site, &command), UPLOAD);
        assert_eq!(flows, 1);
        assert!(p95 < FULL.bound, "{p95} ms");
    }
}

/// curl does not wait in `connect`.
#[test]
#[ignore = "slow: 30 MB"]
fn an_upload_by_curl_under_the_controller() {
    if possible(&[PYTHON, "curl"]) {
        let site = receiver("PUT by curl, server");
        let command = "curl -sS -f -T up http://$CELLPACE_HOST:{port}/up";
        let (p95, flows) = uploads(&site, &under_control(&site, command), UPLOAD);
        assert_eq!(flows, 1);
        assert!(p95 < FULL.bound, "{p95} ms");
    }
}

/// nginx receives under the controller: what it sends is little.
#[test]
#[ignore = "slow: 30 MB"]
fn an_upload_by_curl_to_nginx_arrives() {
    if possible(&["nginx", "curl"]) {
        let site = nginx(
            "PUT to nginx",
            QUICK,
            "client_max_body_size 0;",
            "listen {port}; location /got/ { root {dir}; dav_methods PUT; } ",
        );
        site.folder.write("up", content(UPLOAD));
        let script = site.fill("curl -sS -f -T up http://$CELLPACE_HOST:{port}/got/up || exit 4");
        uploads(&site, &script, UPLOAD);
        let received = site.flows().iter().map(|flow| number(flow, "/received_bytes")).sum::<f64>();
        assert!(received > UPLOAD as f64, "not taken over: {received}");
    }
}

// Measuring.

#[test]
#[ignore = "slow: 20 s"]
fn iperf3() {
    if !possible(&["iperf3"]) {
        return;
    }
    let server = "/usr/bin/iperf3 -s -p {port}";
    for (flows, bound) in [(1, FULL.bound), (TOGETHER, FULL.bound_together)] {
        let fetch =
            format!("iperf3 -J -R -P {flows} -t 8 -c $CELLPACE_HOST -p {{port}} >iperf.json");
        let site = Site::new("iperf3 -R", QUICK).with(server, &fetch);
        let _turn = turn();
        let started = Instant::now();
        let json = site.over_link(LINK, "sleep 1; fetch || { cat iperf.json >&2; exit 3; }");
        let p95 = site.queue(&format!("{flows} at once"), &json, 0, started);
        let told: Value = serde_json::from_slice(&site.folder.read("iperf.json")).unwrap();
        let rate = number(&told, "/end/sum_received/bits_per_second") / 1e6;
        eprintln!("iperf3 says {rate:.1} Mbit/s");
        assert!(rate > 40.0 && p95 < bound, "{rate} Mbit/s, {p95} ms");
    }
}

// Video.

/// A live stream, from ffmpeg through nginx to ffmpeg: every frame that comes is one that was sent.
#[test]
#[ignore = "slow: 20 s"]
fn live_video_by_rtmp() {
    const MODULE: &str = "/usr/lib/nginx/modules/ngx_rtmp_module.so";
    if !possible(&["nginx", "ffmpeg", MODULE]) {
        return;
    }
    let config = format!(
        "load_module {MODULE}; daemon off; worker_processes 1; user root; pid {{dir}}/pid;
         error_log {{dir}}/error.log; events {{}}
         rtmp {{ server {{ listen {{port}}; chunk_size 4096;
           application live {{ live on; }} }} }}"
    );
    let server = "/usr/sbin/nginx -e {dir}/error.log -c {dir}/nginx.conf";
    let pull = "ffmpeg -v error -nostdin -i rtmp://$CELLPACE_HOST:{port}/live/film -t 8 -an -c copy \
                -f framehash $TO";
    let site = Site::new("RTMP", QUICK).config("nginx.conf", &config).with(server, pull);
    let film =
        "-f lavfi -i testsrc2=size=640x360:rate=25 -t 14 -c:v flv1 -b:v 5M -g 50 -f flv film.flv";
    ffmpeg(&site, film);
    ffmpeg(&site, "-i film.flv -c copy -f framehash sent");
    // It is published from the far side, where the server is.
    let publish = site.fill(
        "sleep 1; ffmpeg -v error -nostdin -re -i film.flv -c copy -f flv rtmp://127.0.0.1:{port}/live/film",
    );
    let dir = site.fill("cd {dir}; ");
    let site = Site {
        server: format!("{} & {dir}{publish} >>server.log 2>&1; wait", site.server),
        ..site
    };
    let _turn = turn();
    let started = Instant::now();
    let json = site.over_link(
        "--trace constant:8mbit --rtt 20ms",
        "sleep 3; TO=got/film; fetch || exit 3; sleep 1",
    );
    let p95 = site.queue("live video of 5 Mbit/s over 8", &json, 0, started);
    let hashes = |name: &str| -> Vec<String> {
        let text = String::from_utf8(site.folder.read(name)).unwrap();
        let frames = text.lines().filter(|line| !line.starts_with('#'));
        frames.map(|line| line.rsplit(',').next().unwrap().trim().to_owned()).collect()
    };
    let (sent, got) = (hashes("sent"), hashes("got/film"));
    assert!(got.len() > 150, "{} frames", got.len());
    let first = sent.iter().position(|frame| *frame == got[0]).unwrap();
    assert!(sent[first..].starts_with(&got), "not the frames that were sent");
    assert!(
        site.flows().iter().any(|flow| number(flow, "/sent_bytes") > 2e6),
        "{:?}",
        site.flows()
    );
    assert!(p95 < 150.0, "{p95} ms");
}

fn ffmpeg(site: &Site, args: &str) {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg
        .args(["-v", "error", "-nostdin"])
        .args(args.split(' '))
        .current_dir(site.folder.path(""));
    assert!(ffmpeg.status().unwrap().success());
}

// Tunnels.

/// OpenVPN over TCP: the connections inside have their controller, and the tunnel's own stays as it is.
#[test]
#[ignore = "slow: 10 s"]
fn downloads_through_openvpn_over_tcp() {
    const SIZE: usize = 5_000_000;
    if !possible(&["openvpn", "curl", PYTHON, "unshare", "ip"]) || !is_root() {
        return;
    }
    let site = Site::new("OpenVPN", Load { alone: &[SIZE], ..QUICK });
    // Without keys: what is asked is whether the packets of a tunnel get along with a controller above TCP.
    let openvpn = "openvpn --dev tun --disable-dco --auth none --cipher none";
    let server = format!(
        "{PYTHON} -m http.server -d {{dir}}/www {{port}} & {openvpn} --proto tcp-server --lport 1194 \
         --ifconfig 10.9.0.1 10.9.0.2; wait"
    );
    let site = site.with(
        &server,
        "curl -sS -f --retry 40 --retry-all-errors --retry-delay 1 \
                                   -o $TO http://10.9.0.1:{port}/$FILE",
    );
    // The tunnel stays until the connection inside is closed, behind the one that looks for the server.
    let script = format!(
        "fetch() {{ {}\n}}\n{}{openvpn} --proto tcp-client --remote $CELLPACE_HOST 1194 --nobind \
         --ifconfig 10.9.0.2 10.9.0.1 >near.log 2>&1 & tunnel=$!\n\
         FILE={SIZE}; TO=got/$FILE; fetch; code=$?\n\
         for _ in $(seq 100); do [ $(wc -l <flows.jsonl) -lt 2 ] || break; sleep 0.1; done\n\
         kill $tunnel; exit $code",
        site.fetch,
        wait_for(site.port)
    );
    let far = site.far();
    let link = format!("link --quiet --json link.json {LINK} --far");
    let args = link.split(' ').chain([far.as_str(), "--", "sh", "-c", &script]);
    let _turn = turn();
    let started = Instant::now();
    // The far side has a namespace of its own, too, in which the tunnel's device goes with the test.
    let mut isolated = Command::new("unshare");
    isolated
        .args(["--net", "sh", "-c", "ip link set lo up; exec \"$@\"", "sh", CELLPACE])
        .args(args);
    isolated.current_dir(site.folder.path(""));
    let output = isolated.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", site.log());
    site.arrived(&SIZE.to_string(), SIZE);
    assert!(site.largest_flow() >= SIZE as f64, "not taken over: {:?}", site.flows());
    let json: Value = serde_json::from_slice(&site.folder.read("link.json")).unwrap();
    let p95 = site.queue("through the tunnel", &json, 0, started);
    assert!(p95 < QUICK.bound, "{p95} ms");
}

// Many connections.

const MANY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/real/many.py");

/// Ten thousand connections in one program, five hundred of them sending. Nothing is lost, and idle
/// ones cost little memory.
#[test]
#[ignore = "slow: a minute"]
fn ten_thousand_connections() {
    if !possible(&[PYTHON, "unshare", "ip"]) || !is_root() {
        return;
    }
    let _turn = turn();
    all_are_taken_over(&many("verus", 2000), 2000);
    // A process that may have 20 000 descriptors has too few.
    let found = many("copa", 10_000);
    let capacity = number(&found, "/capacity");
    if capacity >= 10_010.0 {
        return all_are_taken_over(&found, 10_000);
    }
    // Those that the launcher has no descriptors for are plain.
    assert_eq!(number(&found, "/wrong"), 0.0, "{found}");
    assert!(number(&found, "/flows") > capacity * 0.95, "{found}");
    let count = capacity as usize - 100;
    eprintln!("the limit of descriptors is too low for more than {count} flows");
    all_are_taken_over(&many("copa", count), count);
}

fn all_are_taken_over(found: &Value, count: usize) {
    let flows = (count + 10) as f64;
    assert_eq!((number(found, "/wrong"), number(found, "/flows")), (0.0, flows), "{found}");
    for state in ["/idle_bytes", "/used_idle_bytes", "/active_bytes"] {
        assert!(number(found, state) < 64e3, "{state}: {found}");
    }
}

/// What was found with so many connections.
#[track_caller]
fn many(cc: &str, count: usize) -> Value {
    let folder = Folder::new();
    let script = "ip link set lo up && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", script, "sh", PYTHON, MANY, CELLPACE, cc]);
    command.args([&count.to_string(), "500", "10"]).current_dir(folder.path(""));
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}{errors}");
    eprintln!("{count} connections under {cc}: {}{errors}", said.trim_end());
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}
