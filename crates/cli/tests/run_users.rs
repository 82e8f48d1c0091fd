//! `cellpace run` among other users of the machine. Only root can run these tests; where there is
//! no Python or no root, they say so and pass.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the tests of the launcher use all of it")]
#[path = "../../run/tests/it/client/mod.rs"]
mod client;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "it/program/mod.rs"]
mod program;

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use cellpace_control::message::{Ask, HELLO_LEN, Token};
use cellpace_control::variables::parse_token;
use client::{NOBODY, as_user, ask, is_refused, is_root};
use program::guinea::{Guinea, can_run, connect, exchange};
use program::signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recvmsg, send, socket_with, sockopt,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A program, and what every process of it knows of the launcher.
fn known(connections: usize) -> (Guinea, String, Token) {
    let mut guinea = Guinea::start(&format!("known {connections}"));
    let name = guinea.line().strip_prefix("control ").unwrap().to_owned();
    let token = parse_token(guinea.line().strip_prefix("token ").unwrap().as_bytes()).unwrap();
    (guinea, name, token)
}

fn unix_socket(flags: SocketFlags) -> OwnedFd {
    let flags = flags | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// Whether something waits at a descriptor, within some seconds.
fn is_ready(fd: &OwnedFd, seconds: i64) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() > 0
}

/// Takes the name of a launcher that has ended.
fn squat(name: &str) -> OwnedFd {
    let socket = unix_socket(SocketFlags::empty());
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    listen(&socket, 16).unwrap();
    socket
}

/// What a library sends to who has its launcher's name and says `greeting`: records, and how many
/// descriptors came with them.
fn caught(squatter: &OwnedFd, greeting: &[u8]) -> (Vec<Vec<u8>>, usize) {
    assert!(is_ready(squatter, 10), "the library did not ask");
    let client = accept_with(squatter, SocketFlags::CLOEXEC).unwrap();
    sockopt::set_socket_timeout(&client, sockopt::Timeout::Recv, Some(Duration::from_secs(10)))
        .unwrap();
    let _ = send(&client, greeting, SendFlags::NOSIGNAL);
    let (mut records, mut descriptors) = (Vec::new(), 0);
    loop {
        let mut bytes = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let Ok(received) = recvmsg(&client, &mut parts, &mut ancillary, flags) else { break };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors += rights.count();
            }
        }
        if received.bytes == 0 {
            break;
        }
        records.push(bytes[..received.bytes].to_vec());
    }
    (records, descriptors)
}

#[test]
fn who_takes_a_dead_launchers_name_gets_neither_token_nor_sockets() {
    if !can_run() || !is_root() {
        return;
    }
    let forged = [b"CPR\x02".as_slice(), &[7; 48]].concat();
    // Another user; and our own, without the token.
    for (user, greeting) in [(NOBODY, b"CPR\x01".as_slice()), (0, b"CPR\x01"), (0, &forged)] {
        let (mut guinea, name, token) = known(3);
        let address = ([127, 0, 0, 1], guinea.port()).into();
        assert!(exchange(&connect(address), b"hello") == b"hello");
        guinea.says("plain False");
        signal(&guinea.child, "KILL");
        guinea.child.wait().unwrap();

        let squatter = as_user(user, || squat(&name));
        let (records, descriptors) = thread::scope(|scope| {
            let client = scope.spawn(|| exchange(&connect(address), b"hello"));
            let caught = caught(&squatter, greeting);
            assert!(client.join().unwrap() == b"hello");
            caught
        });
        guinea.says("plain True");
        assert_eq!(descriptors, 0, "user {user}");
        let lens: Vec<usize> = records.iter().map(Vec::len).collect();
        assert_eq!(lens, if user == NOBODY { vec![] } else { vec![HELLO_LEN] });
        assert!(!records.concat().windows(4).any(|bytes| bytes == &token[..4]));

        // Nobody is asked again.
        assert!(exchange(&connect(address), b"hello") == b"hello");
        guinea.says("plain True");
        assert!(!is_ready(&squatter, 0), "the library asked again");
    }
}

#[test]
fn without_a_launcher_the_library_asks_only_once() {
    if !can_run() || !is_root() {
        return;
    }
    let (mut guinea, name, _) = known(2);
    let address = ([127, 0, 0, 1], guinea.port()).into();
    signal(&guinea.child, "KILL");
    guinea.child.wait().unwrap();
    assert!(exchange(&connect(address), b"hello") == b"hello");
    guinea.says("plain True");
    // Even who is trusted comes too late.
    let late = squat(&name);
    assert!(exchange(&connect(address), b"hello") == b"hello");
    guinea.says("plain True");
    assert!(!is_ready(&late, 0), "the library asked again");
}

#[test]
fn a_process_of_the_program_gets_no_socket_by_its_number() {
    if !can_run() || !is_root() {
        return;
    }
    let (mut guinea, name, token) = known(1);
    let stream = connect(([127, 0, 0, 1], guinea.port()).into());
    guinea.says("plain False");
    // A worker that gave up root has the token, too.
    as_user(NOBODY, || {
        let (own, _) = UnixStream::pair().unwrap();
        for flow in 0..4 {
            for fds in [[].as_slice(), &[own.as_fd()], &[stream.as_fd()]] {
                is_refused(&ask(&name, &token, Ask::Fetch { flow, linger: false }, fds));
            }
        }
    });
    assert!(exchange(&stream, b"hello") == b"hello");
    guinea.ends_well();
}

/// More connections than a launcher gets rid of, one second each, before the library gives up.
const FLOOD: usize = 5000;

#[test]
fn another_users_flood_keeps_no_connection_from_being_controlled() {
    if !can_run() || !is_root() {
        return;
    }
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < FLOOD as u64 + 1000) {
        cellpace_testing::skip(format_args!("it needs {FLOOD} descriptors"));
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let (mut guinea, name, _) = known(10);
    let address = ([127, 0, 0, 1], guinea.port()).into();
    let (is_full, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| as_user(NOBODY, || flood(&name, &is_full, &is_over)));
        let _over = Over(&is_over);
        program::eventually("so many", || is_full.load(Ordering::Acquire));
        for _ in 0..10 {
            let started = Instant::now();
            assert!(exchange(&connect(address), b"hello") == b"hello");
            guinea.says("plain False");
            assert!(started.elapsed() < Duration::from_secs(5));
        }
    });
    guinea.ends_well();
}

/// Ends the flood, however the test does.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Connects again and again, sends nothing, and closes the oldest when there are too many.
fn flood(name: &str, is_full: &AtomicBool, is_over: &AtomicBool) {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let mut open = VecDeque::new();
    while !is_over.load(Ordering::Acquire) {
        let socket = unix_socket(SocketFlags::NONBLOCK);
        match rustix::net::connect(&socket, &address) {
            Ok(()) => open.push_back(socket),
            Err(_) => sleep(Duration::from_millis(1)),
        }
        if open.len() > FLOOD {
            is_full.store(true, Ordering::Release);
            open.pop_front();
        }
    }
}
