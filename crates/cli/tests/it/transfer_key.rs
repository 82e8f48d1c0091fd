//! `cellpace send` and `recv` under the user's own key, under a given one, and in plain form.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::transfers::{Waiting, cellpace, content, hash, said, send, text};
use cellpace_udp::wire::{self, HEADER_BYTES};

/// A new key in `folder`.
fn key(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let made = cellpace(&["key", text(&path)]).output().unwrap();
    assert!(made.status.success() && made.stdout.is_empty(), "{}", said(&made));
    path
}

/// Somebody between both sides, who forwards what they send, and changes and records what the
/// initiator sends.
struct Between {
    address: String,
    recorded: Arc<Mutex<Vec<Vec<u8>>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Between {
    fn new(responder: &str, change: impl Fn(usize, &mut [u8]) + Send + 'static) -> Self {
        let responder: SocketAddr = responder.parse().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let (recorded, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (to_record, stopped) = (recorded.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let (mut buffer, mut initiator, mut count) = (vec![0; 65_536], None, 0);
            while !stopped.load(Ordering::Relaxed) {
                let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
                let mut datagram = buffer[..bytes].to_vec();
                if from == responder {
                    let _ = initiator.map(|to: SocketAddr| socket.send_to(&datagram, to));
                    continue;
                }
                initiator = Some(from);
                to_record.lock().unwrap().push(datagram.clone());
                change(count, &mut datagram);
                count += 1;
                let _ = socket.send_to(&datagram, responder);
            }
        });
        Self { address, recorded, stop, thread: Some(thread) }
    }

    /// All that the initiator sent.
    fn end(mut self) -> Vec<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        std::mem::take(&mut self.recorded.lock().unwrap())
    }
}

/// Changes a byte of the payload of every seventh packet, and makes the checksum right again.
fn forge(count: usize, datagram: &mut [u8]) {
    if count % 7 == 6 && datagram.len() > 1000 && datagram[0] != 1 {
        *datagram.last_mut().unwrap() ^= 1;
        wire::seal(datagram);
    }
}

#[test]
fn a_file_arrives_both_ways_with_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 300_000);
    let key = key(folder.path(), "path.key");
    let waiting = Waiting::recv(&["--once", "--output", text(&copy), "--key", text(&key)]);
    let sent = send(&waiting.address, &[text(&original), "--cc", "cubic", "--key", text(&key)]);
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
    assert_eq!(hash(&copy), expected);
    fs::remove_file(&copy).unwrap();

    let waiting = Waiting::start("send", &[text(&original), "--cc", "sprout", "--key", text(&key)]);
    let args = ["recv", &waiting.address, "--key", text(&key), "--output", text(&copy)];
    let received = cellpace(&args).output().unwrap();
    assert!(received.status.success(), "{}", said(&received));
    assert!(waiting.end().0);
    assert_eq!(hash(&copy), expected);
}

#[test]
fn another_key_or_none_gets_no_answer_and_hears_why_that_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    fs::create_dir(&files).unwrap();
    let (ours, other) = (key(folder.path(), "a.key"), key(folder.path(), "b.key"));
    let keyed = Waiting::recv(&["--output", text(&files), "--key", text(&ours)]);
    let own = Waiting::recv(&["--output", text(&files)]);
    let plain = Waiting::recv(&["--output", text(&files), "--plain"]);
    for (waiting, with) in [
        (&keyed, &["--key", text(&other)][..]),
        (&keyed, &[]),
        (&keyed, &["--plain"]),
        (&own, &["--key", text(&ours)]),
        (&own, &["--plain"]),
        (&plain, &["--key", text(&ours)]),
        (&plain, &[]),
    ] {
        let args = [&["--bytes", "1kB", "--timeout", "600ms"], with].concat();
        let sent = send(&waiting.address, &args);
        assert_eq!(sent.status.code(), Some(1));
        let said = said(&sent);
        assert!(said.contains("is the key the same on both sides"), "{said}");
    }
    assert_eq!(fs::read_dir(&files).unwrap().count(), 0);
}

#[test]
fn changed_packets_do_not_count_with_a_key_and_spoil_the_file_in_plain_form() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 200_000);
    let key = key(folder.path(), "path.key");
    for with in [&["--key", text(&key)][..], &[], &["--plain"]] {
        let is_plain = with == ["--plain"];
        let args = [&["--once", "--output", text(&copy)], with].concat();
        let waiting = Waiting::recv(&args);
        let between = Between::new(&waiting.address, forge);
        let args = [&[text(&original), "--cc", "fixed:cwnd=20pkts"], with].concat();
        let sent = send(&between.address, &args);
        assert_eq!(sent.status.success(), !is_plain, "{}", said(&sent));
        assert_eq!(waiting.end().0, !is_plain);
        assert_eq!(copy.exists(), !is_plain);
        if copy.exists() {
            assert_eq!(hash(&copy), expected);
            fs::remove_file(&copy).unwrap();
        }
        between.end();
    }
}

#[test]
fn who_is_on_the_path_reads_nothing_unless_it_is_plain() {
    const MARK: &[u8] = b"nobody else may read this";
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    fs::write(&original, MARK.repeat(4000)).unwrap();
    let key = key(folder.path(), "path.key");
    for with in [&[][..], &["--key", text(&key)], &["--plain"]] {
        let args = [&["--once", "--output", text(&copy)], with].concat();
        let waiting = Waiting::recv(&args);
        let between = Between::new(&waiting.address, |_, _| {});
        let sent = send(&between.address, &[&[text(&original), "--cc", "cubic"], with].concat());
        assert!(sent.status.success() && waiting.end().0, "{}", said(&sent));
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&original).unwrap());
        let recorded = between.end();
        assert!(recorded.len() > 60);
        let shows = |part: &[u8]| {
            recorded.iter().any(|datagram| datagram.windows(part.len()).any(|seen| seen == part))
        };
        // The file, and what the handshake says of the controller.
        let is_plain = with == ["--plain"];
        assert_eq!((shows(MARK), shows(b"cubic")), (is_plain, is_plain), "{with:?}");
    }
}

/// `cellpace` for somebody whose configuration is in this folder.
fn of_user(config: &Path, args: &[&str]) -> std::process::Command {
    let mut command = cellpace(args);
    command.env("XDG_CONFIG_HOME", config);
    command
}

#[test]
fn programs_that_start_at_once_make_one_own_key_and_say_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let path = config.join("cellpace/key");
    let start = |_| of_user(&config, &["recv", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let started: Vec<_> = (0..8).map(start).collect();
    let said: Vec<String> = started
        .into_iter()
        .map(|mut child| {
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
            let mut said = String::new();
            while !said.contains("waiting at") {
                said += &(lines.next().unwrap().unwrap() + "\n");
            }
            child.kill().unwrap();
            child.wait().unwrap();
            said
        })
        .collect();
    let made = format!("made your own key {}", path.display());
    assert_eq!(said.iter().filter(|said| said.contains(&made)).count(), 1, "{said:?}");
    assert_eq!(fs::read_dir(config.join("cellpace")).unwrap().count(), 1);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);

    let shown = of_user(&config, &["key"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.starts_with(&format!("your own key: {}\n", path.display())), "{shown}");
    let other = folder.path().join("other");
    let shown = of_user(&other, &["key"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("/other/cellpace/key, made just now\n"), "{shown}");
    assert_ne!(fs::read(&path).unwrap(), fs::read(other.join("cellpace/key")).unwrap());
}

#[test]
fn a_copy_of_an_own_key_is_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path();
    assert!(of_user(config, &["key"]).output().unwrap().status.success());
    let copied = config.join("copied.key");
    fs::copy(config.join("cellpace/key"), &copied).unwrap();
    let waiting = Waiting::recv(&["--once", "--key", text(&copied)]);
    let args = ["send", &waiting.address, "--bytes", "1kB", "--cc", "cubic"];
    let sent = of_user(config, &args).output().unwrap();
    assert!(sent.status.success() && waiting.end().0, "{}", said(&sent));
}

#[test]
fn where_there_can_be_no_own_key_the_error_says_what_to_do() {
    for command in [
        &["recv", "--listen", "127.0.0.1:0"][..],
        &["send", "127.0.0.1:9", "--bytes", "1kB"],
        &["probe", "--listen", "127.0.0.1:0"],
    ] {
        for (config, home, says) in [
            ("/proc", "/", "your own key /proc/cellpace/key: cannot make its folder"),
            ("", "", "neither XDG_CONFIG_HOME nor HOME is a path"),
        ] {
            let output = of_user(Path::new(config), command).env("HOME", home).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            let said = said(&output);
            assert!(said.contains(says) && said.contains("give --key FILE, or --plain"), "{said}");
        }
        let both = cellpace(&[command, &["--plain", "--key", "path.key"]].concat()).output();
        assert_eq!(both.unwrap().status.code(), Some(2), "{command:?}");
    }
}

#[test]
fn a_recorded_transfer_is_of_no_use_to_whoever_recorded_it() {
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    content(&original, 100_000);
    let key = key(folder.path(), "path.key");
    let args = ["--key", text(&key)];
    let waiting = Waiting::recv(&args);
    let between = Between::new(&waiting.address, |_, _| {});
    let sent = send(&between.address, &[text(&original), "--cc", "cubic", "--key", text(&key)]);
    assert!(sent.status.success(), "{}", said(&sent));
    let from = between.address.clone();
    let recorded = between.end();
    assert!(recorded.len() > 60);
    // From the same address, at once, and at a receiver that was started anew.
    let restarted = Waiting::recv(&args);
    for (to, flows) in [(waiting, 2), (restarted, 1)] {
        let socket = UdpSocket::bind(&from).unwrap();
        for datagram in &recorded {
            socket.send_to(datagram, &to.address).unwrap();
        }
        // It still serves who has the key. What was replayed came before that.
        let sent = send(&to.address, &["--bytes", "1kB", "--cc", "cubic", "--key", text(&key)]);
        assert!(sent.status.success(), "{}", said(&sent));
        let lines = to.interrupt();
        assert_eq!(lines.matches("flow from").count(), flows, "{lines}");
    }
}

#[test]
fn a_key_is_its_owners_and_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = key(folder.path(), "path.key");
    let content = fs::read(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let again = cellpace(&["key", text(&path)]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("path.key: it exists already"), "{}", said(&again));
    assert_eq!(fs::read(&path).unwrap(), content);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let broken = folder.path().join("broken.key");
    fs::write(&broken, "cellpace-key-1:12").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o600)).unwrap();
    for command in [
        &["recv", "--listen", "127.0.0.1:0"][..],
        &["send", "127.0.0.1:9", "--bytes", "1kB"],
        &["send", "--listen", "127.0.0.1:0"],
        &["probe", "127.0.0.1:9"],
        &["probe", "--listen", "127.0.0.1:0"],
    ] {
        for (key, says) in [
            (&path, "path.key: others may read or change this key (its mode is 0640)"),
            (&broken, "broken.key: not a key: 2 characters in place of 64"),
            (&folder.path().join("missing.key"), "missing.key: No such file"),
        ] {
            let output = cellpace(&[command, &["--key", text(key)]].concat()).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            assert!(said(&output).contains(says), "{command:?}: {}", said(&output));
        }
    }
}

#[test]
fn a_port_alone_is_on_loopback_unless_a_key_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let key = key(folder.path(), "path.key");
    for (command, args) in
        [("recv", &[][..]), ("send", &["--bytes", "1kB"]), ("recv", &["--plain"])]
    {
        let with_key: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--plain").collect();
        let waiting = Waiting::start_at("0", command, args);
        let address: SocketAddr = waiting.address.parse().unwrap();
        assert!(address.ip().is_loopback() && waiting.hint.contains("--key"), "{address}");
        let waiting =
            Waiting::start_at("0", command, &[&with_key[..], &["--key", text(&key)]].concat());
        let address: SocketAddr = waiting.address.parse().unwrap();
        assert!(address.ip().is_unspecified() && waiting.hint.is_empty(), "{address}");
    }
    // Both loopback addresses, where there are both.
    if UdpSocket::bind("[::1]:0").is_err() {
        cellpace_testing::skip("no IPv6 here");
        return;
    }
    let waiting = Waiting::start_at("0", "recv", &["--once"]);
    let port = waiting.address.rsplit(':').next().unwrap();
    let sent = send(&format!("[::1]:{port}"), &["--bytes", "1kB", "--cc", "cubic"]);
    assert!(sent.status.success(), "{}", said(&sent));
}

/// A header and what a peer that obeys no rules writes behind it.
fn with_text(mut datagram: Vec<u8>, text: &[u8]) -> Vec<u8> {
    datagram.truncate(HEADER_BYTES + 1);
    datagram.push(text.len() as u8);
    datagram.extend(text);
    wire::seal(&mut datagram);
    datagram
}

#[test]
fn texts_of_a_peer_are_not_obeyed_by_the_terminal() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let args = ["send", &address, "--plain", "--bytes", "1kB", "--cc", "cubic", "--timeout", "1s"];
    let sender = cellpace(&args).spawn().unwrap();
    let mut buffer = [0; 2000];
    let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
    let (ids, _) = wire::decode(&buffer[..bytes]).unwrap();
    let mut refusal = Vec::new();
    let ids = wire::Ids { to: ids.from, from: 0 };
    wire::write_refuse(&mut refusal, ids, wire::CloseCode::Busy, "");
    let refusal = with_text(refusal, b"\x1b[2J\x1b]0;title\x07\n[9] 1.00 GB in 1.00 s: forged");
    socket.send_to(&refusal, from).unwrap();
    let output = cellpace_testing::finished(sender);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    assert!(!shown.lines().any(|line| line.starts_with("[9]")), "{shown:?}");
}
