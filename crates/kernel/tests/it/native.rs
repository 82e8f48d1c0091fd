//! Controllers that run in the kernel by themselves. Needs root and a kernel that permits it; says so where it
//! is not tested.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::thread::{self, JoinHandle};

use cellpace_cc::ControllerSpec;
use cellpace_kernel::native::{
    Done, NativeController, NativeError, NativeInstallation, SocketState, Watch, install,
    installed, move_sockets, remove,
};
use cellpace_kernel::{pins, select_named};
use libbpf_rs::{MapHandle, MapType};

use crate::mdi::permitted;
use crate::pins::Name;

fn installation(name: &Name, controller: &str) -> NativeInstallation {
    let spec: ControllerSpec = controller.parse().unwrap();
    let words = spec.kernel_settings().unwrap().words;
    NativeInstallation {
        name: name.0.clone(),
        controller: controller.to_owned(),
        ..NativeInstallation::new(NativeController::of(spec.name()).unwrap(), words)
    }
}

/// A connection over the loopback device whose receiver counts what arrives.
fn connection(name: &str) -> (TcpStream, JoinHandle<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    select_named(&sender, name).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let reader = thread::spawn(move || {
        let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            match receiver.read(&mut buffer).unwrap() {
                0 => return bytes,
                count => bytes += count as u64,
            }
        }
    });
    (sender, reader)
}

fn read(watch: &mut Watch) -> Vec<SocketState> {
    let mut sockets = Vec::new();
    watch.read(&mut sockets).unwrap();
    sockets
}

const MEGABYTES: u64 = 20;

fn send(socket: &mut TcpStream) {
    (0..MEGABYTES).for_each(|_| socket.write_all(&[7; 1_000_000]).unwrap());
}

#[test]
fn pace_is_installed_changed_seen_and_removed() {
    is_installed_changed_seen_and_removed('p', NativeController::Pace, ["pace", "pace:empty=5%"]);
}

#[test]
fn copa_is_installed_changed_seen_and_removed() {
    is_installed_changed_seen_and_removed('c', NativeController::Copa, ["copa", "copa:delta=0.1"]);
}

fn is_installed_changed_seen_and_removed(
    letter: char,
    native: NativeController,
    controllers: [&str; 2],
) {
    let name = Name::new(letter);
    let Some(done) = permitted(install(&installation(&name, controllers[0]))) else { return };
    assert_eq!(done, Done::New);
    assert!(pins(&name.0).exists());
    let (mut sender, receiver) = connection(&name.0);
    send(&mut sender);
    // Some kernels permit no iterators over maps.
    let mut watch = permitted(Watch::open(native, &name.0));
    if let Some(watch) = &mut watch {
        let sockets = read(watch);
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        let socket = &sockets[0];
        assert_eq!(socket.local, sender.local_addr().unwrap());
        assert_eq!(socket.remote, sender.peer_addr().unwrap());
        assert!(socket.window >= 2 && socket.base_us > 0 && socket.packet > 1000, "{socket:?}");
        assert!(socket.acked > MEGABYTES * 500_000 && socket.segments > 10, "{socket:?}");
    }
    // Other parameters, with the connection under the same program.
    assert_eq!(install(&installation(&name, controllers[1])).unwrap(), Done::Changed);
    let known = installed(&name.0).unwrap().unwrap();
    assert_eq!((known.controller.as_str(), known.sockets), (controllers[1], 1));
    assert!(known.pinned && !known.everyone && known.installed_at > 1_700_000_000);
    send(&mut sender);
    // To another congestion control, as `remove --now` does.
    assert_eq!(move_sockets(&name.0, "reno").unwrap(), 1);
    assert_eq!(installed(&name.0).unwrap().unwrap().sockets, 0);
    let left = watch.as_mut().map(read);
    assert!(left.is_none_or(|sockets| sockets.len() <= 1), "storage may outlive the move");
    send(&mut sender);
    sender.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receiver.join().unwrap(), 3 * MEGABYTES * 1_000_000);
    assert!(remove(&name.0).unwrap());
    assert!(!name.is_listed() && !pins(&name.0).exists());
    assert!(!remove(&name.0).unwrap());
}

#[test]
fn a_watch_follows_to_the_program_that_takes_the_place() {
    let name = Name::new('w');
    let installation = installation(&name, "pace");
    let Some(_) = permitted(install(&installation)) else { return };
    let Some(mut watch) = permitted(Watch::open(NativeController::Pace, &name.0)) else {
        assert!(remove(&name.0).unwrap());
        return;
    };
    assert!(watch.follow().unwrap());
    assert!(remove(&name.0).unwrap());
    assert!(!watch.follow().unwrap(), "nothing is installed");
    assert_eq!(install(&installation).unwrap(), Done::New);
    let (mut sender, receiver) = connection(&name.0);
    send(&mut sender);
    assert!(read(&mut watch).is_empty(), "the one before has no sockets");
    assert!(watch.follow().unwrap());
    let sockets = read(&mut watch);
    let namespace = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    assert_eq!((sockets.len(), u64::from(sockets[0].namespace)), (1, namespace));
    // The handshake counts among the acknowledged bytes.
    assert!(sockets[0].sent + 1 >= sockets[0].acked, "{:?}", sockets[0]);
    sender.shutdown(Shutdown::Write).unwrap();
    receiver.join().unwrap();
    assert!(remove(&name.0).unwrap());
}

#[test]
fn a_pin_that_something_else_has_made_stays() {
    let name = Name::new('f');
    let Some(_) = permitted(install(&installation(&name, "pace"))) else { return };
    assert!(remove(&name.0).unwrap());
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let mut foreign =
        MapHandle::create(MapType::Array, Some("foreign"), 4, 4, 1, &options).unwrap();
    foreign.pin(pins(&name.0)).unwrap();
    let taken = |error: String| assert!(error.contains("this is no congestion control"), "{error}");
    taken(install(&installation(&name, "pace")).unwrap_err().to_string());
    taken(remove(&name.0).unwrap_err().to_string());
    assert!(pins(&name.0).exists() && !name.is_listed());
    foreign.unpin(pins(&name.0)).unwrap();
    std::fs::create_dir(pins(&name.0)).unwrap();
    taken(install(&installation(&name, "pace")).unwrap_err().to_string());
    assert!(!remove(&name.0).unwrap(), "a folder is the driver's");
    std::fs::remove_dir(pins(&name.0)).unwrap();
}

#[test]
fn a_name_that_the_kernel_has_itself_stays_the_kernels() {
    let settings =
        NativeInstallation { name: "reno".to_owned(), ..installation(&Name::new('b'), "pace") };
    match install(&settings) {
        Err(NativeError::Foreign(_)) => {}
        result => assert!(permitted(result).is_none(), "reno is the kernel's"),
    }
    assert!(!pins("reno").exists());
    let long = NativeInstallation { name: "a_name_of_16_byt".to_owned(), ..settings };
    assert!(matches!(install(&long), Err(NativeError::Name(_))));
}
