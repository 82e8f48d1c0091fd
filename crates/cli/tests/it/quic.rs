//! QUIC as users run it: `send --quic` and `recv --quic`, and `compare --stack`.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::program::{Folder, eventually, links, number};
use crate::transfers::{Waiting, cellpace, content, hash, said, text};
use serde_json::Value;

/// Both sides have the key of the tests' configuration.
fn connect(command: &str, waiting: &Waiting, args: &[&str]) -> std::process::Output {
    assert!(waiting.hint.starts_with("connect with --quic your own key"), "{}", waiting.hint);
    let all = [&[command, &waiting.address, "--quic"][..], args].concat();
    cellpace(&all).output().unwrap()
}

#[test]
fn a_file_arrives_whoever_waits_and_both_know_how_it_went() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let events = folder.path().join("events.sqlog");
    let expected = content(&original, 300_000);
    for (cc, reverse) in [("verus", false), ("copa", true), ("bbr", false), ("mdi", true)] {
        let sender = [text(&original), "--cc", cc, "--json", "-", "--events", text(&events)];
        let receiver = ["--output", text(&copy), "--json", "-"];
        let (sent, received) = if reverse {
            let waiting = Waiting::start("send", &[&["--quic"][..], &sender].concat());
            let received = connect("recv", &waiting, &receiver);
            assert!(received.status.success(), "{cc}: {}", said(&received));
            (waiting.end(), String::from_utf8(received.stdout).unwrap())
        } else {
            let waiting = Waiting::recv(&[&["--quic", "--once"][..], &receiver].concat());
            let sent = connect("send", &waiting, &sender);
            assert!(sent.status.success(), "{cc}: {}", said(&sent));
            ((true, String::from_utf8(sent.stdout).unwrap()), waiting.end().1)
        };
        assert!(sent.0, "{cc}");
        assert_eq!(hash(&copy), expected, "{cc}");
        fs::remove_file(&copy).unwrap();
        let [sent, received]: [Value; 2] =
            [&sent.1, &received].map(|text| serde_json::from_str(text).unwrap());
        for document in [&sent, &received] {
            assert_eq!(document["transport"], "quic");
            assert_eq!(document["flows"][0]["bytes"], 300_000, "{cc}: {document}");
        }
        assert_eq!(received["flows"][0]["blake3"], expected.to_string());
        assert!(number(&sent, "/flows/0/rtt_ms_seen/p50") > 0.0);
        let log = fs::read(&events).unwrap();
        // The transfer takes less than the interval of metrics.
        assert!(log.windows(4).any(|part| part == b"qlog"), "{cc}: qlog");
    }
}

#[test]
fn two_flows_of_made_up_bytes_end_by_the_clock() {
    let waiting = Waiting::recv(&["--quic", "--once", "--json", "-"]);
    let args = ["--cc", "verus", "--cc", "cubic", "--duration", "2s", "--json", "-"];
    let sent = connect("send", &waiting, &args);
    assert!(sent.status.success(), "{}", said(&sent));
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let (is_good, received) = waiting.end();
    assert!(is_good);
    let received: Value = serde_json::from_str(&received).unwrap();
    for flow in [0, 1] {
        let of = |document, figure: &str| number(document, &format!("/flows/{flow}/{figure}"));
        let (left, came) = (of(&sent, "bytes"), of(&received, "bytes"));
        assert!(left > 10_000.0 && came > 10_000.0, "{left} {came}");
        let took = of(&sent, "stop_s") - of(&sent, "start_s");
        assert!((2.0..6.0).contains(&took), "{took}");
    }
}

#[test]
fn what_contradicts_quic_is_refused_in_words() {
    let folder = Folder::new();
    let none = format!("sha256:{}", "00".repeat(32));
    folder.refused("send 127.0.0.1:9 --quic --plain", "QUIC always encrypts");
    folder.refused("send 127.0.0.1:9 --quic --peer sha256:12", "no fingerprint");
    folder.refused("send 127.0.0.1:9 --quic --peer none.pem", "no file `none.pem`");
    folder.refused("send 127.0.0.1:9 --quic --certificate none.pem", "none.pem: No such file");
    folder.refused(&format!("send 127.0.0.1:9 --peer {none}"), "--quic");
    folder.refused(&format!("send 127.0.0.1:9 --quic --peer {none} --unreliable"), "--unreliable");
    folder.refused(
        &format!("send 127.0.0.1:9 --quic --peer {none} --cc sprout"),
        "half at the receiver",
    );
    folder.refused("recv --quic --acks delayed:40ms", "--acks");
}

/// A configuration of its own, with its own key: another user.
struct Stranger(tempfile::TempDir);

impl Stranger {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = cellpace(args);
        command.env("XDG_CONFIG_HOME", self.0.path());
        command
    }

    /// The fingerprint of its key.
    fn fingerprint(&self) -> String {
        let shown = self.command(&["key"]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let (_, rest) = shown.split_once("--peer ").unwrap_or_else(|| panic!("{shown}"));
        rest.lines().next().unwrap().to_owned()
    }
}

#[test]
fn another_user_gets_no_file_and_leaves_none() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, places) = (folder.path().join("secret"), folder.path().join("places"));
    fs::create_dir(&places).unwrap();
    let expected = content(&secret, 50_000);
    let stranger = Stranger::new();

    // It offers a file: the stranger gets nothing, and the owner still does.
    let offering = Waiting::start("send", &["--quic", text(&secret)]);
    let copy = folder.path().join("copy");
    let args = ["recv", &offering.address, "--quic", "--output", text(&copy)];
    for peer in [None, Some(Stranger::new().fingerprint())] {
        let peer = peer.as_deref().map(|peer| ["--peer", peer]);
        let args = [&args[..], peer.as_ref().map_or(&[], |peer| &peer[..])].concat();
        let taken = stranger.command(&args).output().unwrap();
        assert_eq!(taken.status.code(), Some(1), "{}", said(&taken));
        assert!(said(&taken).contains("fingerprint"), "{}", said(&taken));
        assert!(!copy.exists());
    }
    let taken = cellpace(&args).output().unwrap();
    assert!(taken.status.success(), "{}", said(&taken));
    assert!(offering.end().0);
    assert_eq!(hash(&copy), expected);

    // It receives: the stranger stores nothing.
    let receiving = Waiting::recv(&["--quic", "--output", text(&places)]);
    let sent =
        stranger.command(&["send", &receiving.address, "--quic", text(&secret)]).output().unwrap();
    assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
    receiving.interrupt();
    assert_eq!(fs::read_dir(&places).unwrap().count(), 0);
}

/// A client that knows the server's fingerprint, and shows nothing of itself or a key of its own: the
/// server must not take it.
#[test]
fn who_only_knows_the_fingerprint_is_nobody_to_the_other_side() {
    let (one, other) = (Stranger::new(), Stranger::new());
    let (first, second) = (one.fingerprint(), other.fingerprint());
    assert_ne!(first, second);
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    let expected = content(&original, 50_000);
    let copy = folder.path().join("copy");
    let own = "XDG_CONFIG_HOME";
    let args = ["--quic", "--once", "--peer", &second, "--output", text(&copy)];
    let waiting = Waiting::start_with(|command| command.env(own, one.0.path()), "recv", &args);
    assert!(waiting.hint.contains(&format!("--peer {first}")), "{}", waiting.hint);
    let args = ["send", &waiting.address, "--quic", "--peer", &first, text(&original)];
    let third = Stranger::new().command(&args).output().unwrap();
    assert_eq!(third.status.code(), Some(1), "{}", said(&third));
    assert!(!copy.exists());
    // The one that was named.
    let sent = other.command(&args).output().unwrap();
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
    assert_eq!(hash(&copy), expected);
}

#[test]
fn a_certificate_that_others_may_read_is_refused_as_a_key_is() {
    let folder = Folder::new();
    let path = folder.path("site.pem");
    fs::write(&path, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    for mode in [0o644, 0o640, 0o604, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        folder.refused("recv --quic --certificate site.pem", "others may read");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    folder.refused("recv --quic --certificate site.pem", "has no private key in PEM");
}

/// The receiver's folder is gone: no sender may end well.
#[test]
fn what_cannot_be_stored_is_never_told_as_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (original, places) = (folder.path().join("original"), folder.path().join("places"));
    content(&original, 20_000);
    fs::create_dir(&places).unwrap();
    let waiting = Waiting::recv(&["--quic", "--output", text(&places)]);
    fs::remove_dir(&places).unwrap();
    let args = ["send", &waiting.address, "--quic", text(&original), "--timeout", "10s"];
    let senders: Vec<Child> = (0..24).map(|_| cellpace(&args).spawn().unwrap()).collect();
    for sender in senders {
        let sent = cellpace_testing::finished(sender);
        assert_eq!(sent.status.code(), Some(1), "{}", said(&sent));
        assert!(said(&sent).contains("No such file"), "{}", said(&sent));
    }
}

/// Senders that end well are as many as files that are whole, whatever the receiver runs out of.
#[test]
fn a_receiver_out_of_descriptors_stores_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let (original, places) = (folder.path().join("original"), folder.path().join("places"));
    let expected = content(&original, 200_000);
    fs::create_dir(&places).unwrap();
    let receiver = ["--quic", "--output", text(&places)];
    let waiting = Waiting::start_with(|command| with_descriptors(command, 24), "recv", &receiver);
    let args = ["send", &waiting.address, "--quic", text(&original), "--timeout", "10s"];
    let senders: Vec<Child> = (0..24).map(|_| cellpace(&args).spawn().unwrap()).collect();
    let sent: Vec<_> = senders.into_iter().map(cellpace_testing::finished).collect();
    let good = sent.iter().filter(|sent| sent.status.success()).count();
    for sent in sent.iter().filter(|sent| !sent.status.success()) {
        assert!(said(sent).contains("it has no room for this now"), "{}", said(sent));
    }
    let files: Vec<_> = fs::read_dir(&places).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.iter().all(|file| hash(file) == expected));
    // What was stored when descriptors ran out may not be told.
    assert!(files.len() >= good && good > 0, "{} files, {good} told", files.len());
    waiting.interrupt();
}

/// Starts the program with at most so many descriptors.
fn with_descriptors(command: &mut Command, most: u32) -> &mut Command {
    let program = command.get_program().to_owned();
    let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let variables: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\"")]);
    limited.arg(program).args(args).envs(variables);
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    *command = limited;
    command
}

/// Address 0 of a process is never mapped: reading it is an I/O error.
#[test]
fn a_file_that_cannot_be_read_on_is_named() {
    for quic in [&["--quic"][..], &[]] {
        let waiting = Waiting::recv(quic);
        let mut send = cellpace(&["send", &waiting.address, "/proc/self/mem"]);
        let ended = send.args(quic).output().unwrap();
        let said = said(&ended);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot read: /proc/self/mem: Input/output error"), "{said}");
    }
}

/// The runtime of tokio would panic. A limit of 10 leaves 7 beside the three standard ones, and 8 are needed.
#[test]
fn too_few_descriptors_to_begin_are_an_error_with_what_to_do() {
    let folder = Folder::new();
    let output = folder.path("copy");
    let commands: [&[&str]; 3] = [
        &["recv", "--quic", "--listen", "127.0.0.1:0", "--once", "--output", text(&output)],
        &["send", "127.0.0.1:9", "--quic", "--bytes", "1kB", "--timeout", "1s"],
        &["proxy", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"],
    ];
    for args in commands {
        for most in 6..11 {
            let ended = with_descriptors(&mut cellpace(args), most).output().unwrap();
            let said = said(&ended);
            assert_eq!(ended.status.code(), Some(1), "{args:?} with {most}: {said}");
            assert!(!said.contains("panicked"), "{args:?} with {most}: {said}");
            assert!(said.contains("descriptors") || said.contains("open files"), "{said}");
        }
    }
}

#[test]
fn a_key_makes_both_sides_known_to_each_other() {
    let folder = Folder::new();
    folder.good("key a.key");
    folder.good("key b.key");
    let (a, b) = (folder.path("a.key"), folder.path("b.key"));
    let (a, b) = (text(&a), text(&b));
    let other = Waiting::recv(&["--quic", "--key", a]);
    let wrong = cellpace(&["send", &other.address, "--quic", "--key", b]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    let waiting = Waiting::recv(&["--quic", "--once", "--key", a]);
    let args = ["send", &waiting.address, "--quic", "--key", a, "--bytes", "100kB"];
    let sent = cellpace(&args).output().unwrap();
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
}

#[test]
fn a_file_over_a_cellular_link_is_whole() {
    if !links::possible() {
        return;
    }
    let folder = Folder::new();
    let expected = content(&folder.path("original"), 2_000_000);
    let program = env!("CARGO_BIN_EXE_cellpace");
    let far = format!("exec '{program}' send --quic --listen $CELLPACE_PEER:4433 original");
    let inside = format!("exec '{program}' recv $CELLPACE_PEER:4433 --quic --output copy");
    let link = "link --trace lte-driving --rtt 40ms --far";
    let commands = [&far, "--", "sh", "-c", &inside];
    let outcome = folder.run_args(link.split(' ').chain(commands));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(blake3::hash(&folder.read("copy")), expected);
}

/// Heavy loss leaves many holes in what has arrived: each transfer must be whole all the same. A
/// handshake that loses its last flight seven times is given up; it has moved nothing and is tried again.
#[test]
fn files_are_whole_after_a_path_that_loses_a_third() {
    if !links::possible() {
        return;
    }
    const FILES: usize = 20;
    let folder = Folder::new();
    let expected = content(&folder.path("original"), 3_000_000);
    fs::create_dir(folder.path("copies")).unwrap();
    let program = env!("CARGO_BIN_EXE_cellpace");
    let far = format!("exec '{program}' recv --quic --listen $CELLPACE_PEER:4433 --output copies");
    let sender = format!(
        "'{program}' send $CELLPACE_PEER:4433 --quic original --cc fixed:cwnd=6000pkts --timeout 60s"
    );
    let attempts = format!(
        "attempts() {{ for attempt in 1 2 3; do said=$({sender} 2>&1) && return 0; echo \"$said\" >&2; \
         case $said in *'during the handshake'*) ;; *) return 1;; esac; done; return 1; }}"
    );
    // Four at a time.
    let inside = format!(
        "{attempts}; failed=0; for round in 1 2 3 4 5; do of=; for one in 1 2 3 4; do attempts & of=\"$of $!\"; done; \
         for one in $of; do wait $one || failed=$((failed + 1)); done; done; exit $failed"
    );
    let link = "link --rtt 60ms --loss 30% --uplink-loss 30% --far";
    let commands = [&far, "--", "sh", "-c", &inside];
    let outcome = folder.run_args(link.split(' ').chain(commands));
    assert_eq!(outcome.code, Some(0), "senders that failed: {}", outcome.stderr);
    let copies: Vec<_> =
        fs::read_dir(folder.path("copies")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(copies.len(), FILES);
    assert!(copies.iter().all(|copy| hash(copy) == expected));
}

/// Waits until a pipe that nothing reads has no room.
fn await_full(pipe: &ChildStdout) {
    // Its pages may each have room for less than what comes next.
    eventually("the pipe is full", || rustix::io::ioctl_fionread(pipe).unwrap() > 32_000);
}

/// Its output is a pipe that is full: it ends when it is asked to.
#[test]
fn a_receiver_whose_reader_does_not_read_ends_at_sigterm() {
    for quic in [&[][..], &["--quic"]] {
        let mut waiting = Waiting::recv(&[quic, &["--output", "-"]].concat());
        let args =
            [&["send", &waiting.address, "--bytes", "1MB", "--timeout", "20s"], quic].concat();
        let sender = cellpace(&args).spawn().unwrap();
        // Kept, and not read while the receiver ends.
        let output = waiting.child.stdout.take().unwrap();
        await_full(&output);
        let id = waiting.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let received = waiting.finished();
        assert_eq!(received.status.code(), Some(143), "{quic:?}");
        let sent = cellpace_testing::finished(sender);
        assert_eq!(sent.status.code(), Some(1), "{quic:?}: {}", said(&sent));
    }
}

/// What it says goes into a pipe that is full: it stores what comes all the same, and ends when it is asked to.
#[test]
fn output_that_nothing_reads_stops_no_receiver() {
    for quic in [&[][..], &["--quic"]] {
        let folder = tempfile::tempdir().unwrap();
        let (original, places) = (folder.path().join("original"), folder.path().join("places"));
        fs::create_dir(&places).unwrap();
        content(&original, 3000);
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = format!("127.0.0.1:{port}");
        let args = [&["recv", "-v", "--listen", &at, "--output", text(&places)], quic].concat();
        let mut receiver = cellpace(&args).spawn().unwrap();
        let unread = receiver.stderr.take().unwrap();
        let lines = receiver.stdout.take().unwrap();
        for pipe in [rustix::fd::AsFd::as_fd(&unread), rustix::fd::AsFd::as_fd(&lines)] {
            rustix::pipe::fcntl_setpipe_size(pipe, 4096).unwrap();
        }
        for transfer in 0..60 {
            let args = [&["send", &at, text(&original), "--timeout", "20s"], quic].concat();
            let sent = cellpace(&args).output().unwrap();
            assert!(sent.status.success(), "{quic:?}, transfer {transfer}: {}", said(&sent));
        }
        assert_eq!(fs::read_dir(&places).unwrap().count(), 60, "{quic:?}");
        eventually("the pipe is full", || rustix::io::ioctl_fionread(&lines).unwrap() > 2500);
        assert!(
            Command::new("kill")
                .args(["-TERM", &receiver.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(cellpace_testing::finished(receiver).status.code(), Some(143), "{quic:?}");
    }
}

/// What comes in the name of an address that never answers is answered with less.
#[test]
fn an_address_that_does_not_answer_gets_less_than_it_sent_from_receivers_and_senders() {
    for (waits, asks) in [("recv", "send"), ("send", "recv")] {
        let made = ["--bytes", "1MB"];
        let of = |command| if command == "send" { &made[..] } else { &[] };
        let waiting = Waiting::start(waits, &[&["--quic"][..], of(waits)].concat());
        // What the first packets of a peer are, a relay sees.
        let relay = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = relay.local_addr().unwrap().to_string();
        let mut asking =
            cellpace(&[&[asks, &to, "--quic"][..], of(asks)].concat()).spawn().unwrap();
        let mut first = [0; 2048];
        relay.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        let length = relay.recv(&mut first).unwrap();
        asking.kill().unwrap();
        asking.wait().unwrap();
        assert!(length >= 1200, "{waits}: {length}");
        let victim = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        victim.set_read_timeout(Some(std::time::Duration::from_secs(3))).unwrap();
        let (mut sent, mut got) = (0, 0);
        for _ in 0..3 {
            sent += victim.send_to(&first[..length], &waiting.address).unwrap();
        }
        while let Ok(bytes) = victim.recv(&mut [0; 2048]) {
            got += bytes;
        }
        assert!(got > 0 && got < sent, "{waits}: {got} bytes for {sent}");
    }
}

/// All of it comes through a pipe whose reader takes its time.
#[test]
fn a_slow_reader_gets_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    let expected = content(&original, 700_000);
    for quic in [&[][..], &["--quic"]] {
        let mut waiting = Waiting::recv(&[quic, &["--once", "--output", "-"]].concat());
        let args =
            [&["send", &waiting.address, text(&original), "--timeout", "20s"], quic].concat();
        let sender = cellpace(&args).spawn().unwrap();
        let mut output = waiting.child.stdout.take().unwrap();
        await_full(&output);
        let mut copy = Vec::new();
        output.read_to_end(&mut copy).unwrap();
        assert_eq!(blake3::hash(&copy), expected, "{quic:?}");
        let sent = cellpace_testing::finished(sender);
        assert!(sent.status.success(), "{quic:?}: {}", said(&sent));
        assert!(waiting.end().0, "{quic:?}");
    }
}

/// A sender that waits is a service: a terminal that closes does not end it.
#[test]
fn senders_that_wait_go_on_after_sighup() {
    for quic in [&[][..], &["--quic"]] {
        let offering = Waiting::start("send", &[quic, &["--bytes", "100kB"]].concat());
        let id = offering.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        let taken = cellpace(&[&["recv", &offering.address], quic].concat()).output().unwrap();
        assert!(taken.status.success(), "{quic:?}: {}", said(&taken));
        assert!(offering.end().0, "{quic:?}");
    }
}

#[test]
fn stacks_are_compared_over_the_same_path_with_the_same_bytes() {
    let folder = Folder::new();
    let args = "compare --trace constant:12mbit --duration 10s --cc verus --cc cubic --stack builtin \
                --stack noq --stack quinn:cc=cubic --json - --events events.jsonl";
    let first = folder.good(args);
    assert_eq!(first, folder.good(args), "the same bytes");
    let document: Value = serde_json::from_str(&first).unwrap();
    let names: Vec<&str> = document["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["cc"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["verus", "verus in noq", "cubic", "cubic in noq", "quinn:cc=cubic"]);
    for (run, name) in names.iter().enumerate() {
        let rate = number(&document, &format!("/runs/{run}/throughput_mbps"));
        assert!((10.5..12.1).contains(&rate), "{name}: {rate}");
    }
    assert!(!folder.read("events.jsonl").is_empty());
    folder.refused("compare --cc sprout --stack noq", "half at the receiver");
    folder.refused("compare --stack quic", "write noq or quinn");
    folder.refused("compare --stack noq --transfer 2MB", "always have data");
}
