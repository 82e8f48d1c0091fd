//! A case as it happens, and what must be true afterwards.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cellpace_base::Random;

use super::case::{Case, Fault, Role, Subject};
use super::ground::{
    CABLE, CELLPACE, Ended, FAR, Ground, NEAR, OTHER, PATIENCE, Process, Side, signal,
};
use super::program::guinea::PYTHON;

pub(crate) const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/peer.py");

/// Bytes of a transfer at most.
const LARGEST: &str = "3000000";

/// Bytes of the file that is sent.
const FILE_BYTES: usize = 2_000_000;

/// Transfers that must succeed after the fault.
const MIN_AFTER: usize = 3;

/// Signals that say that a program is broken: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const CRASHES: [i32; 5] = [4, 6, 7, 8, 11];

const SIGKILL: i32 = 9;

/// What became of the transfers of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) whole: usize,
    pub(crate) cut: usize,
    pub(crate) short: usize,
    pub(crate) wrong: usize,
    pub(crate) hung: usize,
}

impl Tally {
    pub(crate) fn of(text: &str) -> Self {
        let count = |word: &str| text.lines().filter(|line| line.ends_with(word)).count();
        let [whole, cut, short, wrong, hung] =
            [" whole", " cut", " short", " wrong", " hung"].map(count);
        Self { whole, cut, short, wrong, hung }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.whole += other.whole;
        self.cut += other.cut;
        self.short += other.short;
        self.wrong += other.wrong;
        self.hung += other.hung;
    }
}

/// What a case showed.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// What should not be so.
    pub(crate) failures: Vec<String>,
    /// Why the case says nothing here.
    pub(crate) skipped: Option<String>,
}

/// Has both outputs of a command go to a pipe of a page, of which the beginning is passed on until
/// nothing reads any more. The reader is no child of the command, which would wait for it.
const UNREAD_OUTPUT: &str = r#"
mkfifo pipe
( ( dd bs=1 count=400 of=command.out conv=notrunc oflag=append status=none
    while [ ! -e stop ]; do sleep 0.1; done ) <pipe >/dev/null 2>&1 & )
exec >pipe 2>&1
python3 -c 'import fcntl; fcntl.fcntl(1, 1031, 4096)'
"#;

struct Scene {
    case: Case,
    ground: Ground,
    /// What the shell prepares for the command.
    prepare: String,
    /// In front of the names of the files that it writes.
    outputs: &'static str,
    command: Option<Process>,
    server: Option<Process>,
    client: Option<Process>,
    /// Clients that read nothing.
    stalled: Option<Process>,
    /// How often a receiver was started: each has a folder of its own.
    receivers: u32,
    failures: Vec<String>,
}

/// Plays a case.
pub(crate) fn play(case: &Case, clock: Option<&Path>) -> Outcome {
    let mut scene = Scene {
        case: case.clone(),
        ground: Ground::new(),
        prepare: ":".to_owned(),
        outputs: "",
        command: None,
        server: None,
        client: None,
        stalled: None,
        receivers: 0,
        failures: Vec::new(),
    };
    if let Err(why) = scene.prepare(clock) {
        return Outcome { tally: Tally::default(), failures: Vec::new(), skipped: Some(why) };
    }
    scene.start();
    sleep(case.moment);
    scene.strike();
    scene.goes_on();
    scene.stop();
    scene.judge()
}

impl Scene {
    /// Makes what the fault and the subject need, or says what is missing.
    fn prepare(&mut self, clock: Option<&Path>) -> Result<(), String> {
        if self.case.subject == Subject::Quic && !cfg!(feature = "quic") {
            return Err("built without the feature `quic`".to_owned());
        }
        match self.case.fault {
            Fault::FullDisk => self.outputs = self.ground.small_disk(),
            Fault::FewDescriptors => self.prepare = "ulimit -n 64".to_owned(),
            Fault::UnreadOutput => self.prepare = UNREAD_OUTPUT.to_owned(),
            Fault::LittleMemory => {
                let prepared = self.ground.little_memory(self.case.memory);
                self.prepare = prepared.ok_or("no cgroups with a limit on memory")?;
            }
            Fault::ClockStep => {
                let library = clock.ok_or("no libfaketime")?;
                self.ground.folder.write("clock", "+0");
                self.prepare = format!(
                    "export LD_PRELOAD='{}' FAKETIME_TIMESTAMP_FILE=\"$PWD/clock\" \
                     FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1",
                    library.display()
                );
            }
            _ => {}
        }
        if self.case.subject.is_transfer() {
            let mut random = Random::seeded(self.case.seed, 1);
            let bytes: Vec<u8> = (0..FILE_BYTES).map(|_| random.bits() as u8).collect();
            self.ground.folder.write("original", bytes);
        }
        if self.case.subject == Subject::Attach {
            let install = format!("kernel install --name {}", self.ground.driver());
            let outcome = self.ground.folder.run(&install);
            if outcome.code != Some(0) {
                return Err(format!("no kernel driver: {}", outcome.stderr.trim()));
            }
        }
        if self.case.subject == Subject::Native {
            self.install_native().map_err(|why| format!("no controller in the kernel: {why}"))?;
        }
        Ok(())
    }

    fn start(&mut self) {
        match self.case.subject {
            Subject::Run | Subject::Send | Subject::Quic => self.start_command(),
            Subject::Link => self.start_server(),
            Subject::Proxy | Subject::Attach | Subject::Native => {
                self.start_server();
                self.start_command();
            }
        }
        self.start_client();
    }

    fn start_server(&mut self) {
        let mut prepare = ":".to_owned();
        if self.case.subject == Subject::Attach {
            let cgroup = self.ground.unified_cgroup().expect("the kernel driver needs one, too");
            prepare = format!("echo 0 >'{}/cgroup.procs'", cgroup.display());
        }
        self.start_server_after(&prepare);
    }

    fn start_server_after(&mut self, prepare: &str) {
        let arguments = [PYTHON, PEER, "serve", "9000"];
        let mut server = self.ground.start("server", Side::Near, prepare, &arguments);
        server.says("serving");
        self.server = Some(server);
    }

    fn start_command(&mut self) {
        let cc = self.case.controller;
        let json = match self.case.fault {
            // `run` prints what its program does on standard error then.
            Fault::UnreadOutput => "-v --json -".to_owned(),
            Fault::StalledMembers => format!("--share --json {}flows", self.outputs),
            _ => format!("--json {}flows", self.outputs),
        };
        let files = format!("--events {}events.jsonl --events-every 10ms {json}", self.outputs);
        let (arguments, ready) = match self.case.subject {
            Subject::Run => {
                let program = format!("-- {PYTHON} {PEER} serve 9000");
                (format!("run --driver gate --cc {cc} {files} {program}"), "serving")
            }
            Subject::Proxy => {
                let at = "--listen 0.0.0.0:9001 --to 127.0.0.1:9000 --drain 5s";
                let limits = "--driver gate --max-per-client none";
                (format!("proxy {at} {limits} --cc {cc} {files}"), "waiting at")
            }
            Subject::Attach => {
                let name = self.ground.driver();
                (format!("attach --name {name} --in 9000 --cc {cc} {files}"), "attached to")
            }
            Subject::Native => {
                let name = self.ground.driver();
                (format!("kernel watch --cc {cc} --name {name} --every 20ms {json}"), "")
            }
            Subject::Send | Subject::Quic => {
                self.receivers += 1;
                let folder = format!("{}received{}", self.outputs, self.receivers);
                fs::create_dir(self.ground.folder.path(&folder)).unwrap();
                let at = "--listen 0.0.0.0:5260 --timeout 15s";
                let transport = self.case.subject.transport();
                let more = if self.case.fault == Fault::UnreadOutput { "-v" } else { "" };
                (format!("recv {at} {transport} --output {folder} {more}"), "waiting at")
            }
            Subject::Link => unreachable!("the client is its program"),
        };
        let mut words: Vec<&str> = vec![CELLPACE];
        words.extend(arguments.split_whitespace());
        let mut command = self.ground.start("command", Side::Near, &self.prepare, &words);
        command.says(ready);
        self.command = Some(command);
    }

    fn start_client(&mut self) {
        let host = if self.case.is_linked() { "$CELLPACE_HOST" } else { NEAR };
        let port = if self.case.subject == Subject::Proxy { 9001 } else { 9000 };
        let (clients, seed, cc) = (self.case.clients(), self.case.seed, self.case.controller);
        let script = if self.case.subject.is_transfer() {
            // Ends with its input, like the other one.
            let transport = self.case.subject.transport();
            format!(
                "while [ ! -e stop ]; do
                    '{CELLPACE}' send {host} {transport} --quiet --timeout 15s --cc {cc} original &&
                        echo put whole || {{ echo put cut; sleep 0.05; }}
                done; echo ended"
            )
        } else {
            format!("exec '{PYTHON}' '{PEER}' fetch {host} {port} {seed} {clients} {LARGEST}")
        };
        let shell = ["sh", "-c", &script];
        let impaired = "reorder=2%/5ms,duplicate=1%,corrupt=1%";
        let up = format!("up:{impaired}");
        let mut link = vec![CELLPACE, "link", "--quiet", "--rtt", "10ms"];
        link.extend(["--trace", "constant:200mbit", "--seed"]);
        let number = seed.to_string();
        link.push(&number);
        if self.case.fault == Fault::Impaired {
            link.extend(["--impair", impaired, "--impair", &up]);
        }
        let file = format!("{}link.json", self.outputs);
        if self.case.subject == Subject::Link {
            link.extend(["--json", &file]);
        }
        link.push("--");
        let words =
            if self.case.is_linked() { [&link[..], &shell].concat() } else { shell.to_vec() };
        let side = if self.case.is_linked() { Side::Near } else { Side::Far };
        let prepare = if self.case.subject == Subject::Link { &self.prepare } else { ":" };
        self.client = Some(self.ground.start("client", side, prepare, &words));
        self.gets_something_done(self.tally().whole);
    }

    /// What the clients have written so far.
    fn tally(&self) -> Tally {
        let text = fs::read_to_string(self.ground.folder.path("client.out"));
        Tally::of(&text.unwrap_or_default())
    }

    /// Waits until more transfers than so many were whole.
    fn gets_something_done(&mut self, done: usize) {
        let until = Instant::now() + PATIENCE;
        while self.tally().whole < done + MIN_AFTER {
            // What a full disk takes nothing of cannot be received.
            let is_told = self.case.subject.is_transfer() && self.case.fault == Fault::FullDisk;
            if is_told && self.tally().cut >= MIN_AFTER {
                return;
            }
            if self.case.may_end() && self.is_command_gone() {
                return;
            }
            if Instant::now() > until {
                self.failures.push(format!("no transfers any more: {:?}", self.tally()));
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn is_command_gone(&mut self) -> bool {
        let process =
            if self.case.subject == Subject::Link { &mut self.client } else { &mut self.command };
        process.as_mut().is_some_and(|process| process.ended().is_some())
    }

    /// The process of a role.
    fn pid(&self, role: Role) -> Option<u32> {
        let Self { command, server, client, .. } = self;
        let client = client.as_ref()?;
        match (role, self.case.subject) {
            (Role::Command, Subject::Link) => Some(client.pid()),
            (Role::Command, _) => command.as_ref().map(Process::pid),
            (Role::Server, Subject::Run) => command.as_ref()?.descendant("serve"),
            (Role::Server, _) => server.as_ref().map(Process::pid),
            (Role::Client, Subject::Send | Subject::Quic) => client.descendant("send"),
            (Role::Client, _) if self.case.is_linked() => client.descendant("fetch"),
            (Role::Client, _) => Some(client.pid()),
        }
    }

    /// Lets it happen, and ends what can pass.
    fn strike(&mut self) {
        let lasts = self.case.lasts;
        match self.case.fault {
            Fault::Kill(role) => self.kill(role),
            Fault::Stop(role) => {
                let Some(pid) = self.pid(role).map(|pid| pid.to_string()) else { return };
                signal("STOP", &pid);
                sleep(lasts);
                signal("CONT", &pid);
            }
            Fault::ClockStep => {
                self.ground.folder.write("clock.new", self.case.step);
                let path = |name| self.ground.folder.path(name);
                fs::rename(path("clock.new"), path("clock")).unwrap();
            }
            Fault::InterfaceDown => self.for_a_while("down", "up"),
            Fault::SmallMtu if self.case.is_linked() => self.for_a_while("mtu 1280", "mtu 1500"),
            Fault::SmallMtu => self.black_hole(),
            Fault::AddressChange => {
                self.ground.ip(Side::Far, &format!("addr del {FAR}/24 dev {CABLE}"));
                self.ground.ip(Side::Far, &format!("addr add {OTHER}/24 dev {CABLE}"));
                if !self.case.subject.is_transfer() {
                    // The kernel keeps connections of an address that is gone: their owner ends.
                    self.kill(Role::Client);
                }
            }
            Fault::StalledMembers => self.stall(),
            Fault::Exchanged => self.exchange(),
            Fault::FullDisk
            | Fault::FewDescriptors
            | Fault::LittleMemory
            | Fault::Impaired
            | Fault::UnreadOutput => {}
        }
    }

    /// Installs the controller, and sees that sockets under it can be looked at: not every kernel permits that.
    fn install_native(&self) -> Result<(), String> {
        let cc = self.case.controller;
        self.succeeds(&format!("install --cc {cc} --default --everyone"))?;
        let watched = self.succeeds(&format!("watch --cc {cc} --count 1"));
        if watched.is_err() {
            self.succeeds(&format!("remove --cc {cc}"))?;
        }
        watched
    }

    /// Runs `cellpace kernel`; what it complains of, if it fails.
    fn succeeds(&self, words: &str) -> Result<(), String> {
        let output = self.ground.kernel(words).output().map_err(|error| error.to_string())?;
        let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(()) } else { Err(errors) }
    }

    fn exchange(&mut self) {
        let mut random = Random::seeded(self.case.seed, 2);
        let until = Instant::now() + self.case.lasts;
        let cc = self.case.controller;
        while Instant::now() < until {
            let parameter = if cc == "pace" { "empty=2%" } else { "delta=0.3" };
            let words = match random.below(5) {
                0 => format!("remove --cc {cc}"),
                1 => format!("remove --cc {cc} --now"),
                2 => format!("install --cc {cc}:{parameter} --everyone"),
                _ => format!("install --cc {cc} --default --everyone"),
            };
            let mut child = self.ground.kernel(&words).stderr(Stdio::null()).spawn().unwrap();
            if random.below(2) == 0 {
                sleep(Duration::from_millis(random.below(100)));
                let _ = child.kill();
            }
            child.wait().unwrap();
        }
        if let Err(why) = self.install_native() {
            self.failures.push(format!("it cannot be installed any more: {why}"));
        }
    }

    /// Connects clients of the same address that ask for much and read nothing.
    fn stall(&mut self) {
        let port = if self.case.subject == Subject::Proxy { "9001" } else { "9000" };
        let words = [PYTHON, PEER, "stall", NEAR, port, "30"];
        let mut stalled = self.ground.start("stalled", Side::Far, ":", &words);
        stalled.says("stalled");
        self.stalled = Some(stalled);
    }

    /// Sets the interface of the clients' path for a while.
    fn for_a_while(&self, set: &str, back: &str) {
        // Without a route of their own clients could not even begin.
        let (side, device) = match self.case.fault {
            _ if self.case.is_linked() => (Side::Near, "cellpace0"),
            _ => (Side::Near, "near"),
        };
        self.ground.ip(side, &format!("link set {device} {set}"));
        sleep(self.case.lasts);
        self.ground.ip(side, &format!("link set {device} {back}"));
    }

    /// Drops what is longer than 1280 bytes on its way, for a while. A smaller MTU of the cable's far end
    /// would have the near end's own TCP see each drop, which is another fault: Linux takes it for a lack
    /// of resources and gives up after 16 probes, half a second apart, without a word to the peer.
    fn black_hole(&self) {
        let namespace = self.ground.namespace(Side::Far);
        let inside = ["ip", "netns", "exec", &namespace, "nft"];
        let chain =
            "{ chain hole { type filter hook prerouting priority 0; meta length > 1280 drop; }; }";
        self.ground.must(&[&inside[..], &["add", "table", "inet", "torture", chain]].concat());
        sleep(self.case.lasts);
        self.ground.must(&[&inside[..], &["delete", "table", "inet", "torture"]].concat());
    }

    fn kill(&mut self, role: Role) {
        let Some(pid) = self.pid(role) else { return };
        let is_link = (role, self.case.subject) == (Role::Command, Subject::Link);
        let inside = self.client.as_ref().and_then(|client| client.descendant("fetch"));
        signal("KILL", &pid.to_string());
        if is_link && let Some(pid) = inside {
            let until = Instant::now() + Duration::from_secs(10);
            while Path::new(&format!("/proc/{pid}")).exists() && Instant::now() < until {
                sleep(Duration::from_millis(20));
            }
            if Path::new(&format!("/proc/{pid}")).exists() {
                self.failures.push("the program in a killed link goes on".to_owned());
            }
        }
        self.wait_for_the_end(role);
    }

    /// Waits for the program that ends when the process of the role does.
    fn wait_for_the_end(&mut self, role: Role) {
        let process = match (role, self.case.subject) {
            // The loop of senders goes on.
            (Role::Client, Subject::Send | Subject::Quic) => return,
            (Role::Client, _) | (Role::Command, Subject::Link) => &mut self.client,
            (Role::Server, Subject::Run) | (Role::Command, _) => &mut self.command,
            (Role::Server, _) => &mut self.server,
        };
        if process.as_mut().is_some_and(|process| process.end().is_none()) {
            self.failures.push(format!("nothing ends when {role:?} is killed"));
        }
    }

    /// Starts what has ended again, as a supervisor would, and sees that it works.
    fn goes_on(&mut self) {
        let ended = |process: &mut Option<Process>| {
            process.as_mut().is_some_and(|process| process.ended().is_some())
        };
        if ended(&mut self.server) {
            let cgroup =
                if self.case.subject == Subject::Attach { self.cgroup_again() } else { ":".into() };
            self.server = None;
            self.start_server_after(&cgroup);
        }
        let gone = ended(&mut self.command);
        if gone {
            self.check_end("command");
        }
        let server_lives = self.pid(Role::Server).is_some();
        match self.case.subject {
            // The program of a killed launcher goes on, with plain connections.
            Subject::Run if gone && self.is_serving() => {}
            _ if gone && self.case.may_end() => {
                self.prepare = ":".to_owned();
                self.restart();
            }
            Subject::Run if !server_lives => self.restart(),
            _ if gone => {
                let stderr = self.command.as_ref().map(Process::stderr).unwrap_or_default();
                self.failures.push(format!("the command ended: {stderr}"));
                self.restart();
            }
            _ => {}
        }
        if ended(&mut self.client) {
            self.client = None;
            if self.case.subject == Subject::Link {
                self.prepare = ":".to_owned();
            }
            self.start_client();
        }
        self.gets_something_done(self.tally().whole);
    }

    fn restart(&mut self) {
        if let Some(old) = self.command.take() {
            old.signal_all("KILL");
        }
        self.start_command();
    }

    /// Whether the server of a launcher that is gone is still there: it is in its group.
    fn is_serving(&self) -> bool {
        let near = self.ground.processes(Side::Near);
        near.iter().any(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"serve")
        })
    }

    fn cgroup_again(&self) -> String {
        let path = self.ground.cgroup_path();
        format!("echo 0 >'{}/cgroup.procs'", path.display())
    }

    /// Ends everything in order.
    fn stop(&mut self) {
        self.ground.folder.write("stop", "");
        if let Some(client) = &mut self.client {
            client.close_input();
            if client.end().is_none() {
                self.failures.push("the clients do not end".to_owned());
            }
        }
        // Those that read nothing end with an error of theirs.
        self.stalled = None;
        if let Some(command) = &mut self.command {
            // What a launcher that was killed has left gets the signal, too.
            command.signal_all("TERM");
            if command.end().is_none() {
                self.failures.push(format!("it does not end: {}", command.stderr()));
            }
        }
        if let Some(server) = &mut self.server {
            server.signal("TERM");
            server.end();
        }
    }

    fn check_end(&mut self, name: &str) {
        let process = match name {
            "command" => &mut self.command,
            "client" => &mut self.client,
            _ => &mut self.server,
        };
        let Some(process) = process else { return };
        let ended = process.ended();
        let stderr = process.stderr();
        if let Some(Ended::Signal(signal)) = ended
            && (CRASHES.contains(&signal) || (signal == SIGKILL && !self.case.kills()))
        {
            self.failures.push(format!("signal {signal} ended the {name}: {stderr}"));
        }
        if stderr.contains("panicked") || stderr.contains("Traceback") {
            self.failures.push(format!("the {name} is broken: {stderr}"));
        }
    }

    fn judge(mut self) -> Outcome {
        for name in ["command", "client", "server"] {
            self.check_end(name);
        }
        let tally = self.tally();
        let server = fs::read_to_string(self.ground.folder.path("server.out")).unwrap_or_default();
        let mut fails = |is_so: bool, what: String| {
            if is_so {
                self.failures.push(what);
            }
        };
        fails(tally.wrong > 0 || server.contains("wrong"), format!("wrong bytes: {tally:?}"));
        fails(tally.hung > 0, format!("connections hang: {tally:?}"));
        fails(tally.short > 0 && !self.case.may_be_short(), format!("ended in order: {tally:?}"));
        fails(tally.cut > 0 && !self.case.may_cut(), format!("cut: {tally:?}"));
        let unfinished = self.ground.unfinished();
        fails(!unfinished.is_empty() && !self.case.kills(), format!("unfinished: {unfinished:?}"));
        if self.case.subject.is_transfer() {
            self.check_files(tally.whole);
        }
        if self.case.subject == Subject::Attach {
            let removed =
                self.ground.folder.run(&format!("kernel remove --name {}", self.ground.driver()));
            if removed.code != Some(0) {
                self.failures.push(format!("the driver cannot be removed: {}", removed.stderr));
            }
            self.failures.extend(self.ground.pins().into_iter().map(|pin| format!("left: {pin}")));
        }
        if self.case.subject == Subject::Native {
            let words = format!("remove --cc {} --now", self.case.controller);
            let removed = self.ground.kernel(&words).output().unwrap();
            if !removed.status.success() {
                let errors = String::from_utf8_lossy(&removed.stderr).into_owned();
                self.failures.push(format!("the controller cannot be removed: {errors}"));
            }
            self.failures.extend(self.ground.pins().into_iter().map(|pin| format!("left: {pin}")));
            if self.ground.is_registered() {
                self.failures.push("left: the congestion control".to_owned());
            }
        }
        let left = self.ground.left();
        self.failures.extend(left.into_iter().map(|what| format!("left: {what}")));
        Outcome { tally, failures: std::mem::take(&mut self.failures), skipped: None }
    }

    /// Every file that was received is whole, and there is one for each of which the sender was told.
    fn check_files(&mut self, told: usize) {
        let original = self.ground.folder.read("original");
        let mut whole = 0;
        for number in 1..=self.receivers {
            let folder = format!("{}received{number}", self.outputs);
            for (name, bytes) in self.ground.folder.contents(&folder) {
                let is_partial = name.ends_with(".partial");
                whole += usize::from(!is_partial && bytes == original);
                if !is_partial && bytes != original {
                    self.failures.push(format!("{folder}/{name} is torn: {} bytes", bytes.len()));
                }
            }
        }
        if whole < told {
            self.failures.push(format!("{told} files were confirmed, {whole} are there"));
        }
    }
}
