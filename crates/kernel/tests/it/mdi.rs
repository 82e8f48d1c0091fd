//! MDI in the kernel. What needs BPF is skipped with a line where the kernel permits none.

#![allow(unsafe_code, reason = "TCP_INFO has no safe wrapper")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::measured;
use cellpace_cc::ControllerSpec;
use cellpace_kernel::mdi::{self as kernel, Done, Loaded, NativeError, TableInstallation};
use cellpace_kernel::{pins, select_named};
use cellpace_mdi::{
    About, Axis, Counts, Flat, Model, ModelPart, States, TransitionCount, VectorEvent, VectorStep,
    test_vector,
};
use libbpf_rs::ErrorKind;
use measured::measured;
use nix::sched::{CloneFlags, unshare};
use sha2::{Digest, Sha256};

const STEPS: usize = 2000;

/// The table of a controller string.
fn flat(spec: &str, file: &[u8]) -> Flat {
    let spec = ControllerSpec::parse(spec, &mut |_| Ok(file.to_vec())).unwrap();
    spec.markov_walk().unwrap().flat
}

/// A model with transitions from everywhere to somewhere, and rows that were never seen.
fn model(kind: &str) -> Vec<u8> {
    let d = Axis::new("delay", -10_000, 10_000, 2000).unwrap();
    let w = Axis::new("window", -20_000, 20_000, 2000).unwrap();
    let states = match kind {
        "absolute" => States::Absolute(cellpace_mdi::Absolute {
            d_min: 20,
            d_max: 220,
            quantization: 5,
            w_min: 0,
            w_max: 30,
        }),
        "relative" => States::Relative(cellpace_mdi::Relative { d, w }),
        _ => {
            let d = Axis::new("delay", 0, 1700, 10).unwrap();
            States::Levels(cellpace_mdi::Levels { d, w })
        }
    };
    let (len, mut random) = (states.len(), cellpace_mdi::Draws::seeded(3));
    let mut below = |end: u32| random.bits() % end;
    let cells = (0..4000)
        .map(|_| TransitionCount {
            from: below(len),
            to: below(len),
            count: u64::from(below(20)) + 1,
        })
        .collect();
    let part = ModelPart { users: 1, samples: 4001, counts: Counts::from_cells(cells) };
    let about = About { epoch_us: 5000, ..About::default() };
    Model { about, states, parts: vec![part] }.to_bytes()
}

fn tables() -> Vec<(String, Flat)> {
    let mut tables = vec![("built-in".to_owned(), flat("mdi", &[]))];
    for kind in ["absolute", "relative", "levels"] {
        let file = model(kind);
        for rules in ["", ",sampler=closest,empty=paper", ",empty=code,prune=0.05"] {
            let spec = format!("mdi:model=-{rules}");
            tables.push((format!("{kind} {spec}"), flat(&spec, &file)));
        }
    }
    tables
}

fn same(name: &str, found: &[[u32; 2]], vector: &[VectorStep]) {
    assert_eq!(found.len(), vector.len(), "{name}");
    for (number, (found, step)) in found.iter().zip(vector).enumerate() {
        assert_eq!(*found, [step.window, step.credit], "{name}: step {number}, {step:?}");
    }
}

/// What BPF made, or nothing, said, where it is not permitted.
pub(crate) fn permitted<T>(result: Result<T, NativeError>) -> Option<T> {
    let denied = |error: &NativeError| match error {
        NativeError::NoBtf { .. } | NativeError::Kernel(_) | NativeError::NoLinks => true,
        NativeError::Bpf { source, .. } => source.kind() == ErrorKind::PermissionDenied,
        _ => false,
    };
    match result {
        Ok(made) => Some(made),
        Err(error) if denied(&error) => {
            cellpace_testing::skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_walk_of_the_kernel_is_the_walk_of_the_library() {
    for (name, flat) in tables() {
        for seed in [0, 1, 77, u64::MAX] {
            let vector = test_vector(&flat, seed, STEPS);
            let loaded = Loaded::load(&TableInstallation::new(flat.clone()), true);
            let Some(mut walk) = permitted(loaded) else { return };
            same(&name, &walk.walk(seed, &vector).unwrap(), &vector);
        }
    }
}

/// The same text, compiled for this machine.
#[test]
fn the_walk_in_c_is_the_walk_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("walk");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/walk_host.c");
    let options = ["-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"];
    let cc = Command::new("cc").args(options).arg("-o").arg(&program).arg(source).status();
    match cc {
        Ok(status) => assert!(status.success()),
        Err(error) => return cellpace_testing::skip(format_args!("no cc: {error}")),
    }
    for (name, flat) in tables() {
        let table = folder.path().join("table");
        std::fs::write(&table, flat.to_bytes()).unwrap();
        let vector = test_vector(&flat, 77, STEPS);
        let lines: String = vector.iter().map(|step| line(&step.event)).collect();
        let mut child = Command::new(&program)
            .arg(&table)
            .arg("77")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let writer = thread::spawn(move || input.write_all(lines.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{name}");
        let text = String::from_utf8(output.stdout).unwrap();
        let words = |line: &str| {
            let (window, credit) = line.split_once(' ').unwrap();
            [window, credit].map(|word| word.parse().unwrap())
        };
        let found: Vec<[u32; 2]> = text.lines().map(words).collect();
        same(&name, &found, &vector);
    }
}

fn line(event: &VectorEvent) -> String {
    match *event {
        VectorEvent::Epoch { delay_us, acked, sent, in_flight, epochs } => {
            format!("e {delay_us} {} {sent} {in_flight} {epochs}\n", u32::from(acked))
        }
        VectorEvent::Set { window, forget } => format!("s {window} {} 0 0 0\n", u32::from(forget)),
    }
}

#[test]
fn a_name_too_long_is_refused() {
    let settings = TableInstallation {
        name: "a_name_of_16_byt".to_owned(),
        ..TableInstallation::new(flat("mdi", &[]))
    };
    assert!(matches!(Loaded::load(&settings, false), Err(NativeError::Name(_))));
}

/// Removed whatever happens.
struct Installed(String);

impl Drop for Installed {
    fn drop(&mut self) {
        let removed = cellpace_kernel::table::remove(&self.0);
        assert!(removed.is_ok() || thread::panicking());
    }
}

/// A connection over the loopback device, and the hash of what arrives until its end.
fn connection(name: &str) -> io::Result<(TcpStream, JoinHandle<[u8; 32]>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    select_named(&sender, name)?;
    let (mut receiver, _) = listener.accept()?;
    let reader = thread::spawn(move || {
        let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            match receiver.read(&mut buffer).unwrap() {
                0 => return hash.finalize().into(),
                count => hash.update(&buffer[..count]),
            }
        }
    });
    Ok((sender, reader))
}

/// A megabyte that depends on its number.
fn megabyte(number: u8) -> Vec<u8> {
    (0..1_000_000_u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8 ^ number)
        .collect()
}

#[test]
fn connections_keep_to_their_table_when_another_is_installed() {
    let name = format!("cp_mdi{}", std::process::id() % 100_000);
    let one = |seed| TableInstallation {
        name: name.clone(),
        seed,
        ..TableInstallation::new(flat("mdi", &[]))
    };
    let installed = Installed(name.clone());
    let Some(done) = permitted(kernel::install(&one(1))) else { return };
    assert_eq!(done, Done::New);
    let (mut old, reader) = connection(&name).unwrap();
    let mut sent = Sha256::new();
    let mut send = |number| {
        let bytes = megabyte(number);
        sent.update(&bytes);
        old.write_all(&bytes).unwrap();
    };
    send(0);
    let absolute = TableInstallation { flat: flat("mdi:model=-", &model("absolute")), ..one(2) };
    assert_eq!(kernel::install(&absolute).unwrap(), Done::Replaced);
    send(1);
    let (mut new, new_reader) = connection(&name).unwrap();
    new.write_all(&megabyte(7)).unwrap();
    assert_eq!(kernel::install(&one(3)).unwrap(), Done::Replaced);
    send(2);
    drop(installed);
    assert!(!pins(&name).exists());
    assert!(connection(&name).is_err(), "it is removed");
    send(3);
    for socket in [&old, &new] {
        socket.shutdown(Shutdown::Write).unwrap();
    }
    assert_eq!(reader.join().unwrap(), <[u8; 32]>::from(sent.finalize()));
    assert_eq!(new_reader.join().unwrap(), <[u8; 32]>::from(Sha256::digest(megabyte(7))));
}

#[test]
fn a_name_that_is_taken_is_not_taken_over() {
    let name = "reno".to_owned();
    let settings =
        TableInstallation { name: name.clone(), ..TableInstallation::new(flat("mdi", &[])) };
    if permitted(Loaded::load(&settings, false)).is_none() {
        return;
    }
    let error = kernel::install(&settings).unwrap_err();
    assert!(matches!(error, NativeError::Foreign(_)), "{error}");
    assert!(!pins(&name).exists());
    assert!(!cellpace_kernel::table::remove(&name).unwrap());
}

/// What TCP may have in flight, in packets.
fn cwnd(socket: &TcpStream) -> u32 {
    // SAFETY: it is plain numbers, for which zeros are values.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (fd, place) = (socket.as_raw_fd(), (&raw mut info).cast());
    // SAFETY: the descriptor is open, and `place` has room for `length` bytes.
    let code =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut length) };
    assert_eq!(code, 0);
    info.tcpi_snd_cwnd
}

/// Moves this thread to a network whose loopback device has packets of Ethernet's size: with its own
/// of 64 kB ten packets are more than the receiver takes, and the window is not what limits.
fn small_packets() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let status = Command::new("ip").args("link set lo mtu 1500 up".split(' ')).status();
    assert!(status.unwrap().success());
}

#[test]
fn a_window_that_nobody_uses_does_not_grow() {
    measured(|| {
        let name = format!("cp_mdk{}", std::process::id() % 100_000);
        // Its one window is twice the one before, at every delay.
        let axis = |axis, min, max, step| Axis::new(axis, min, max, step).unwrap();
        let (d, w) = (axis("delay", 0, 3000, 3000), axis("window", 0, 100_000, 100_000));
        let states = States::Levels(cellpace_mdi::Levels { d, w });
        let cells = (0..4)
            .flat_map(|from| [1, 3].map(|to| TransitionCount { from, to, count: 1 }))
            .collect();
        let part = ModelPart { users: 1, samples: 9, counts: Counts::from_cells(cells) };
        let about = About { epoch_us: 5000, ..About::default() };
        let file = Model { about, states, parts: vec![part] }.to_bytes();
        let settings = TableInstallation {
            name: name.clone(),
            ..TableInstallation::new(flat("mdi:model=-", &file))
        };
        let Some(loaded) = permitted(Loaded::load(&settings, false)) else { return };
        let link = loaded.register().unwrap();
        small_packets();
        let (mut socket, reader) = connection(&name).unwrap();
        socket.set_nodelay(true).unwrap();
        for _ in 0..100 {
            socket.write_all(&[7; 100]).unwrap();
            thread::sleep(Duration::from_millis(6));
        }
        let unused = cwnd(&socket);
        assert!((2..=20).contains(&unused), "{unused} packets");
        for _ in 0..50 {
            socket.write_all(&megabyte(1)).unwrap();
        }
        assert!(cwnd(&socket) > unused, "{} packets", cwnd(&socket));
        socket.shutdown(Shutdown::Write).unwrap();
        reader.join().unwrap();
        drop(link);
    });
}
