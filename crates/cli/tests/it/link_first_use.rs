//! `cellpace link` as somebody meets it who has not read its page: a shell, hints, what cannot be
//! reached, what is missing on the machine, and changes while it runs.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::links::{is_root, open_folder, possible, shell, unshared};
use crate::program::{Folder, Outcome, eventually, signal};

/// Runs a command with a text on its standard input.
fn with_input(mut command: Command, input: &str) -> Outcome {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Outcome::of(child.wait_with_output().unwrap())
}

#[test]
fn without_a_command_there_is_a_shell() {
    if !possible() {
        return;
    }
    let folder = Folder::new();
    for shell in ["/bin/sh", ""] {
        let mut command = folder.command(["link", "-q", "--rtt", "0ms"]);
        command.env("SHELL", shell);
        let outcome = with_input(command, "echo inside $CELLPACE_LINK\nexit 7\n");
        assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
        assert!(outcome.stdout.starts_with("inside "), "{}", outcome.stdout);
        assert!(outcome.stdout.trim().contains('-'), "process and start: {}", outcome.stdout);
    }
}

#[test]
fn the_prompt_shows_that_one_is_inside() {
    if !possible() {
        return;
    }
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("script") || !has("bash") {
        cellpace_testing::skip("no `script` or no bash");
        return;
    }
    let folder = Folder::new();
    let mut command = Command::new("script");
    let link = format!("{} link -q --rtt 0ms", env!("CARGO_BIN_EXE_cellpace"));
    command.args(["-qec", &link, "/dev/null"]).current_dir(folder.path("."));
    command.env("SHELL", "/bin/bash").env("HOME", folder.path(".")).env("PS1", "$ ");
    let outcome = with_input(command, "exit 5\n");
    assert_eq!(outcome.code, Some(5), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("[link] "), "{}", outcome.stdout);
}

#[test]
fn what_users_of_mahimahi_write_is_answered_with_what_to_write() {
    let folder = Folder::with("up", "1\n");
    folder.write("down", "1\n");
    for (args, said) in [
        ("link up down -- true", "write --uplink up --trace down"),
        ("link up down", "write --uplink up --trace down"),
        ("link up -- true", "write --trace up"),
        ("link curl example.org", "put `--` in front of the program: -- curl example.org"),
        ("link --trace constant:0mbit -- true", "a rate of zero delivers nothing"),
        (
            "link --trace constant:0mbit -- true",
            "--trace: `constant:0mbit`: a rate of zero delivers nothing",
        ),
        (
            "link --uplink constant:0mbit -- true",
            "--uplink: `constant:0mbit`: a rate of zero delivers nothing",
        ),
        ("link --rtt -40ms -- true", "--rtt: `-40ms`: a delay is not negative"),
        ("link --loss 0.05 -- true", "write 5%"),
        ("link --loss 100% -- true", "--loss: `100%`: when every packet is lost, nothing arrives"),
        ("link --set rate=5", "--set rate: constant: `5` needs a unit"),
        ("link --set speed=5mbit", "a link has no such setting"),
        ("link --set rate=5mbit -- true", "cannot be used with"),
        ("link --report - -- true", "--report: a page needs a file"),
    ] {
        folder.refused(args, said);
    }
}

/// Connects to an address from inside, which must fail at once.
const CONNECT: &str = "for address in 198.51.100.1 198.51.100.2; do \
                       bash -c \"exec 3<>/dev/tcp/$address/80\" && exit 1; done; exit 9";

#[test]
fn what_is_beyond_the_machine_is_refused_at_once_and_said_once() {
    if !possible() {
        return;
    }
    let started = Instant::now();
    let outcome = shell("--rtt 0ms", CONNECT);
    assert_eq!(outcome.code, Some(9), "{}", outcome.stderr);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let said = &outcome.stderr;
    assert_eq!(said.matches("use --nat").count(), 1, "{said}");
    assert!(said.contains("link: 198.51.100.1 is beyond this machine"), "{said}");
    assert!(said.matches("unreachable").count() >= 2, "{said}");
    let detailed = shell("-v --rtt 0ms", CONNECT).stderr;
    assert!(detailed.contains("link: 198.51.100.2:80 cannot be reached"), "{detailed}");
    assert!(!shell("-q --rtt 0ms", CONNECT).stderr.contains("--nat"));
    let started = Instant::now();
    let six = shell("-q --rtt 0ms", "exec bash -c 'exec 3<>/dev/tcp/2001:db8::1/80'");
    assert!(six.code != Some(0) && started.elapsed() < Duration::from_secs(10));
}

#[test]
fn what_the_machine_lacks_is_named() {
    if !is_root() || !possible() {
        cellpace_testing::skip("not root");
        return;
    }
    let folder = open_folder();
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups -- ./cellpace link -- true";
    let mount = ["--mount"];
    for (user, program) in [("root", "./cellpace link -- true"), ("nobody", nobody)] {
        let missing = format!("mount -t tmpfs none /dev/net; exec {program}");
        let outcome = unshared(&folder, &mount, &missing);
        outcome.complains(1, "there is no /dev/net/tun");
        assert!(!outcome.stderr.contains("namespace"), "{user}: {}", outcome.stderr);
    }
    let closed =
        format!("mount -t tmpfs none /dev/net; mknod -m 600 /dev/net/tun c 10 200; exec {nobody}");
    let outcome = unshared(&folder, &mount, &closed);
    outcome.complains(1, "/dev/net/tun may not be opened");
    assert!(!outcome.stderr.contains("user namespaces"), "{}", outcome.stderr);
    let forbidden = "echo 0 > /proc/sys/user/max_user_namespaces; \
                     exec setpriv --bounding-set=-all --inh-caps=-all ./cellpace link -- true";
    let outcome = unshared(&folder, &["--user", "--map-root-user"], forbidden);
    outcome.complains(1, "user namespaces are forbidden here");
}

#[test]
fn a_user_changes_links_and_learns_what_needs_root() {
    if !is_root() || !possible() {
        cellpace_testing::skip("not root");
        return;
    }
    let folder = open_folder();
    folder.write(
        "inside",
        "./cellpace link --set rate=1mbit --set rtt=20ms\n\
         ! bash -c 'exec 3<>/dev/tcp/198.51.100.1/80'\n",
    );
    let script = "mount -t tmpfs none /dev/net; mknod -m 666 /dev/net/tun c 10 200; \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \
                  ./cellpace link -v --trace constant:5mbit -- sh -e inside";
    let outcome = unshared(&folder, &["--mount"], script);
    if outcome.stderr.contains("user namespaces are forbidden") {
        cellpace_testing::skip("no user namespaces");
        return;
    }
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("s: rate=1mbit rtt=20ms\n"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("use --nat, which needs root\n"), "{}", outcome.stderr);
    let far = "without root the far side is a namespace of its own, where servers of this machine are \
               not reached: --far COMMAND runs one there";
    assert!(outcome.stderr.contains(far), "{}", outcome.stderr);
}

#[test]
fn names_that_this_machine_would_resolve_are_refused_with_a_hint() {
    if !is_root() || !possible() {
        cellpace_testing::skip("not root");
        return;
    }
    let folder = open_folder();
    folder.write("resolv.conf", "nameserver 127.0.0.53\n");
    let script = "mount --bind resolv.conf /etc/resolv.conf; \
                  exec ./cellpace link --rtt 0ms -- getent hosts name.example";
    let started = Instant::now();
    let outcome = unshared(&folder, &["--mount"], script);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let said = "link: the name server of this machine does not serve the inside: use --nat";
    assert_eq!(outcome.stderr.matches(said).count(), 1, "{}", outcome.stderr);
}

#[test]
fn a_far_side_that_fails_at_once_is_reported() {
    if !possible() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.run_args(["link", "-q", "--far", "exit 3", "--", "touch", "ran"]);
    outcome.complains(1, "--far: exit 3 ended at once with exit code 3");
    assert!(folder.names().is_empty(), "the program does not run");
    let good = folder.run_args(["link", "-q", "--far", "true", "--", "true"]);
    assert_eq!(good.code, Some(0), "{}", good.stderr);
}

/// A link that waits, and its number.
struct WaitingLink(Child);

impl WaitingLink {
    fn start(folder: &Folder, options: &str) -> Self {
        let args = ["link"].into_iter().chain(options.split_whitespace());
        let program = ["--", "sh", "-c", "touch up; exec sleep 1000"];
        let mut command = folder.command(args.chain(program));
        command.stdout(Stdio::null()).stderr(fs::File::create(folder.path("said")).unwrap());
        let link = Self(command.spawn().unwrap());
        eventually("up", || folder.path("up").exists());
        link
    }

    fn number(&self) -> String {
        self.0.id().to_string()
    }

    fn end(mut self) {
        signal(&self.0, "TERM");
        self.0.wait().unwrap();
    }
}

impl Drop for WaitingLink {
    fn drop(&mut self) {
        // Fails once it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `cellpace link --set` for the link of a number.
fn set(folder: &Folder, number: &str, settings: &[&str]) -> Outcome {
    let options = settings.iter().flat_map(|setting| ["--set", setting]);
    let mut command = folder.command(["link"].into_iter().chain(options));
    Outcome::of(command.env("CELLPACE_LINK", number).output().unwrap())
}

#[test]
fn links_are_changed_from_outside_by_their_number() {
    if !possible() {
        return;
    }
    let (folder, other) = (Folder::with("trace", "1\n2\n"), Folder::new());
    let one = WaitingLink::start(&folder, "-v --trace constant:5mbit --json out.json");
    let two = WaitingLink::start(&other, "-q --trace constant:5mbit");
    let all = ["rate=3mbit", "rtt=80ms", "loss=1%", "queue=codel", "uplink=constant:1mbit"];
    let outcome = set(&folder, &one.number(), &all);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    // Files are looked for where the command runs.
    let file = set(&folder, &one.number(), &["trace=trace", "impair=up:duplicate=1%"]);
    assert_eq!((file.code, file.stderr.as_str()), (Some(0), ""));
    set(&other, &one.number(), &["trace=trace"]).complains(2, "there is no trace file `trace`");
    let mut several = folder.command(["link", "--set", "rate=1mbit"]);
    let several = Outcome::of(several.env_remove("CELLPACE_LINK").output().unwrap());
    several.complains(1, "say which one with CELLPACE_LINK=");
    set(&folder, "1", &["rate=1mbit"]).complains(1, "there is no link `1` of yours");
    one.end();
    two.end();
    let said = String::from_utf8(folder.read("said")).unwrap();
    assert!(said.contains("s: rate=3mbit rtt=80ms loss=1% queue=codel"), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&folder.read("out.json")).unwrap();
    let trace = json["runs"][0]["trace"].as_str().unwrap();
    assert!(trace.starts_with("constant:5mbit, from ") && trace.contains("rate=3mbit"), "{trace}");
}

#[test]
fn only_its_user_changes_a_link() {
    if !is_root() || !possible() {
        cellpace_testing::skip("not root");
        return;
    }
    let folder = open_folder();
    let link = WaitingLink::start(&folder, "-q --trace constant:5mbit");
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    nobody.arg(folder.path("cellpace")).args(["link", "--set", "rate=1mbit"]);
    nobody.env("CELLPACE_LINK", link.number()).current_dir(folder.path("."));
    let outcome = Outcome::of(nobody.output().unwrap());
    outcome.complains(1, "of yours here");
    link.end();
}

#[test]
fn inside_of_nested_links_it_is_the_innermost_that_changes() {
    if !possible() {
        return;
    }
    let own = env!("CARGO_BIN_EXE_cellpace");
    let inner = format!("{own} link -v --rtt 0ms -- {own} link --set rate=2mbit");
    let outcome = shell("-v --rtt 0ms", &format!("{inner}; {own} link --set rate=7mbit"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let changes: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("rate=")).collect();
    assert_eq!(changes.len(), 2, "{}", outcome.stderr);
    assert!(
        changes[0].ends_with("rate=2mbit") && changes[1].ends_with("rate=7mbit"),
        "{changes:?}"
    );
}
