//! Sockets of programs that run, searched by their cookies. Needs root and a kernel that permits it; says
//! so where it is not tested.

#![allow(unsafe_code, reason = "descriptors at a given number")]

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cellpace_kernel::descriptors::{DescriptorPlace, Descriptors};
use nix::sched::{CloneFlags, unshare};

/// `None`, and a line that says why, where the kernel or who we are does not permit it.
fn descriptors() -> Option<Descriptors> {
    match Descriptors::open() {
        Ok(descriptors) => Some(descriptors),
        Err(error) if nix::unistd::geteuid().is_root() => panic!("{error}"),
        Err(error) => {
            cellpace_testing::skip(error);
            None
        }
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn cookie(socket: &impl AsFd) -> u64 {
    socket2::SockRef::from(socket).cookie().unwrap()
}

fn here(socket: &impl AsRawFd, cookie: u64) -> DescriptorPlace {
    DescriptorPlace {
        cookie,
        pid: std::process::id().cast_signed(),
        descriptor: socket.as_raw_fd(),
    }
}

/// Asserts that exactly these places are found. A process that is being started has all of ours until
/// its program begins, so it may take a moment.
fn found(descriptors: &mut Descriptors, cookies: &[u64], expected: &[DescriptorPlace]) {
    let key = |place: &DescriptorPlace| (place.pid, place.descriptor);
    let mut expected = expected.to_vec();
    expected.sort_by_key(key);
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let mut found = descriptors.find(cookies).unwrap();
        found.sort_by_key(key);
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "{found:?}, expected {expected:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A process that has the socket as its descriptor 0, until it is killed.
fn with(socket: impl Into<OwnedFd>) -> Child {
    Command::new("sleep").arg("60").stdin(Stdio::from(socket.into())).spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn sockets_of_our_own_are_found_and_no_others() {
    let Some(mut descriptors) = descriptors() else { return };
    let ((one, other), (third, _fourth)) = (pair(), pair());
    let (of_one, of_other) = (cookie(&one), cookie(&other));
    assert!(cookie(&third) > 0, "it has one, too, which is not searched");
    let both = [here(&one, of_one), here(&other, of_other)];
    found(&mut descriptors, &[of_one, of_other, u64::MAX], &both);
    assert_eq!(descriptors.find(&[u64::MAX]).unwrap(), [], "the ones before are forgotten");
    assert_eq!(descriptors.find(&[]).unwrap(), []);
}

#[test]
fn a_child_has_it_after_the_parent_has_closed_it() {
    let Some(mut descriptors) = descriptors() else { return };
    let (one, _other) = pair();
    let cookie = cookie(&one);
    let child = with(one.try_clone().unwrap());
    let pid = child.id().cast_signed();
    let in_child = DescriptorPlace { cookie, pid, descriptor: 0 };
    found(&mut descriptors, &[cookie], &[here(&one, cookie), in_child]);
    drop(one);
    found(&mut descriptors, &[cookie], &[in_child]);
    end(child);
    found(&mut descriptors, &[cookie], &[]);
}

#[test]
fn a_descriptor_that_moved_is_found_where_it_is() {
    let Some(mut descriptors) = descriptors() else { return };
    let ((one, _other), place) = (pair(), File::open("/dev/null").unwrap());
    let cookie = cookie(&one);
    // SAFETY: both are ours.
    let moved = unsafe { libc::dup2(one.as_raw_fd(), place.as_raw_fd()) };
    assert_eq!(moved, place.as_raw_fd());
    found(&mut descriptors, &[cookie], &[here(&one, cookie), here(&place, cookie)]);
    drop(one);
    found(&mut descriptors, &[cookie], &[here(&place, cookie)]);
}

#[test]
fn a_number_that_is_another_ones_now_is_not_told_of() {
    let Some(mut descriptors) = descriptors() else { return };
    let ((one, _other), (next, _fourth)) = (pair(), pair());
    let (before, after) = (cookie(&one), cookie(&next));
    let number = one.as_raw_fd();
    // SAFETY: both are ours, and the first is not used any more.
    assert_eq!(unsafe { libc::dup2(next.as_raw_fd(), number) }, number);
    let reused = DescriptorPlace { descriptor: number, ..here(&next, after) };
    found(&mut descriptors, &[before, after], &[here(&next, after), reused]);
}

#[test]
fn what_is_not_open_for_use_is_passed_over() {
    let Some(mut descriptors) = descriptors() else { return };
    let (one, _other) = pair();
    let cookie = cookie(&one);
    let name = format!("/proc/self/fd/{}\0", one.as_raw_fd());
    // SAFETY: the name ends in a NUL.
    let handle = unsafe { libc::open(name.as_ptr().cast(), libc::O_PATH | libc::O_CLOEXEC) };
    assert!(handle >= 0);
    // SAFETY: the kernel has just made it for us alone.
    let _handle = unsafe { OwnedFd::from_raw_fd(handle) };
    found(&mut descriptors, &[cookie], &[here(&one, cookie)]);
}

#[test]
fn a_socket_of_another_network_is_found() {
    let Some(mut descriptors) = descriptors() else { return };
    let socket = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        // It is not connected: the network has no address. It has a cookie nevertheless.
        TcpListener::bind("0.0.0.0:0").unwrap()
    });
    let socket = socket.join().unwrap();
    let cookie = cookie(&socket);
    let child = with(socket);
    let in_child = DescriptorPlace { cookie, pid: child.id().cast_signed(), descriptor: 0 };
    found(&mut descriptors, &[cookie], &[in_child]);
    end(child);
}

#[test]
fn numbers_of_processes_are_those_that_we_see() {
    if descriptors().is_none() {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "descriptors::sockets_of_our_own_are_found_and_no_others"]);
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn many_descriptors_are_looked_at_in_one_pass() {
    let Some(mut descriptors) = descriptors() else { return };
    let (one, _other) = pair();
    let null = File::open("/dev/null").unwrap();
    let many: Vec<File> = (0..800).map_while(|_| null.try_clone().ok()).collect();
    let last = one.try_clone().unwrap();
    let cookie = cookie(&one);
    assert!(many.len() > 100, "{}", many.len());
    found(&mut descriptors, &[cookie], &[here(&one, cookie), here(&last, cookie)]);
}
