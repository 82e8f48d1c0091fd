//! Prompt acknowledgments in the running kernel: what leaves by a device over veth and VLAN. Needs
//! root and Linux 6.6 with BPF; says so where it is not tested. Each test has a driver with a name of
//! its own, and two networks of its own.

#![allow(unsafe_code, reason = "packet sockets")]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::measured;
use cellpace_kernel::install::{InstallError, InstallOptions, InstallOutcome, install};
use cellpace_kernel::{
    Kernel, Policy, PromptAcks, SocketControl, installed, pins, remove, select_named,
};
use measured::measured;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};

/// A driver's name, which is removed at the end, whatever happens.
struct Driver(String);

impl Driver {
    /// Not installed yet. `None`, and a line that says why, where it cannot be.
    fn named() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let driver = Self(format!("cp_p{:x}_{number}", std::process::id()));
        let skipped = |why: &dyn std::fmt::Display| {
            cellpace_testing::skip(why);
            None
        };
        if !nix::unistd::geteuid().is_root() {
            return skipped(&"needs root");
        }
        match driver.install(&["lo"]) {
            Ok(_) => remove(&driver.0).unwrap(),
            Err(error @ (InstallError::NoBtf { .. } | InstallError::Kernel(_))) => {
                return skipped(&error);
            }
            Err(error @ InstallError::NoTcx(_)) => return skipped(&error),
            Err(error) if refused(&error) => return skipped(&error),
            Err(error) => panic!("{error}"),
        };
        Some(driver)
    }

    fn install(&self, devices: &[&str]) -> Result<InstallOutcome, InstallError> {
        self.install_what_is_there(devices, false)
    }

    fn install_what_is_there(
        &self,
        devices: &[&str],
        skip_missing: bool,
    ) -> Result<InstallOutcome, InstallError> {
        let prompt_acks = devices.iter().map(ToString::to_string).collect();
        let name = self.0.clone();
        install(&InstallOptions {
            name,
            ring_bytes: 1 << 16,
            prompt_acks,
            skip_missing,
            ..InstallOptions::default()
        })
    }

    /// Name of each device, and whether it is there.
    fn devices(&self) -> Vec<(String, bool)> {
        let found = installed(&self.0).unwrap().prompt_acks;
        let known = |PromptAcks { device, attached }| (device, attached.unwrap());
        found.into_iter().map(known).collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = remove(&self.0);
        assert!(!pins(&self.0).exists() || thread::panicking());
    }
}

fn refused(error: &InstallError) -> bool {
    match error {
        InstallError::Bpf { source, .. } => source.kind() == libbpf_rs::ErrorKind::PermissionDenied,
        InstallError::System { source, .. } | InstallError::Attach { source, .. } => {
            source.kind() == ErrorKind::PermissionDenied
        }
        _ => false,
    }
}

/// Two networks with a veth pair between them: this thread's with `va`, and the far one with `vb`.
struct Networks {
    near: File,
    far: File,
}

impl Networks {
    fn new() -> Self {
        let own = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            File::open("/proc/thread-self/ns/net").unwrap()
        };
        let (far, near) = (own(), own());
        let networks = Self { near, far };
        // Every packet is one segment, and its checksum is in it when it is captured.
        ip(&format!(
            "link add va type veth peer name vb netns /proc/{}/fd/{}",
            std::process::id(),
            networks.far.as_raw_fd()
        ));
        ip("link set lo up");
        networks.addresses("va", 1);
        without_checksum_offload("va");
        networks.in_far(|| networks.addresses("vb", 2));
        networks
    }

    fn addresses(&self, device: &str, host: u32) {
        ip(&format!("address add 10.1.0.{host}/24 dev {device}"));
        ip(&format!("address add fd01::{host}/64 dev {device} nodad"));
        ip(&format!("link set {device} up"));
    }

    /// Does something in the far network. Sockets that it makes stay there.
    fn in_far<T>(&self, work: impl FnOnce() -> T) -> T {
        setns(&self.far, CloneFlags::CLONE_NEWNET).unwrap();
        let result = work();
        setns(&self.near, CloneFlags::CLONE_NEWNET).unwrap();
        result
    }

    /// A connection from here to a reader there.
    fn connection(&self, address: &str) -> (TcpStream, Reader) {
        let listener = self.in_far(|| {
            // An address of IPv6 takes a moment, also without the search for duplicates.
            eventually(|| TcpListener::bind(address).ok())
        });
        let address: SocketAddr = listener.local_addr().unwrap();
        let sender = eventually(|| TcpStream::connect(address).ok());
        let (mut receiver, _) = listener.accept().unwrap();
        // What hangs shall fail.
        let most = Some(Duration::from_secs(20));
        sender.set_write_timeout(most).unwrap();
        sender.set_read_timeout(most).unwrap();
        receiver.set_read_timeout(most).unwrap();
        let bytes = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(got @ 1..) = receiver.read(&mut buffer) {
                count.fetch_add(got as u64, Ordering::Relaxed);
            }
        });
        (sender, Reader { bytes, thread })
    }
}

/// Reads until the end.
struct Reader {
    bytes: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn end(self) -> u64 {
        self.thread.join().unwrap();
        self.bytes.load(Ordering::Relaxed)
    }
}

fn eventually<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < end, "too late");
        thread::sleep(Duration::from_millis(20));
    }
}

fn ip(arguments: &str) {
    let out = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(out.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&out.stderr));
}

/// As `ethtool -K DEVICE tx off`: the kernel computes the sums before it hands packets over.
fn without_checksum_offload(device: &str) {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    // `struct ethtool_value` with ETHTOOL_STXCSUM and 0.
    let mut value: [u32; 2] = [0x17, 0];
    // SAFETY: all of it are plain numbers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes()) {
        // Signed on some machines.
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: the kernel reads the request and the value, which outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A socket that gets all packets of a device, from the IP header on.
struct Capture(OwnedFd);

impl Capture {
    fn new(device: &str) -> Self {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK;
        // SAFETY: without conditions.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(all)) };
        assert!(fd >= 0);
        // SAFETY: the kernel has just made it for us.
        let capture = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let room: libc::c_int = 64 << 20;
        // SAFETY: the kernel reads a number, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const room).cast(),
                size_of_val(&room) as u32,
            )
        };
        assert_eq!(result, 0);
        // SAFETY: all of it are plain numbers, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = nix::net::if_::if_nametoindex(device).unwrap().cast_signed();
        let length = size_of_val(&address) as u32;
        // SAFETY: the kernel reads the address, which outlives the call.
        let result = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
        assert_eq!(result, 0);
        capture
    }

    /// The segments with data that came from a port until now.
    fn segments(&self, port: u16) -> Vec<Segment> {
        let mut found = Vec::new();
        let mut buffer = vec![0u8; 1 << 17];
        loop {
            // SAFETY: the kernel writes at most as many bytes as the buffer has.
            let got = unsafe {
                libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0)
            };
            let Ok(got) = usize::try_from(got) else { return found };
            found.extend(Segment::read(&buffer[..got]).filter(|segment| segment.port == port));
        }
    }
}

/// A segment with data.
#[derive(Debug)]
struct Segment {
    port: u16,
    push: bool,
    sum_is_right: bool,
}

impl Segment {
    fn read(packet: &[u8]) -> Option<Self> {
        let (tcp, pseudo) = match packet.first()? >> 4 {
            4 if packet[9] == 6 => {
                let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
                let header = usize::from(packet[0] & 15) * 4;
                (&packet[header..length], &packet[12..20])
            }
            6 => {
                let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
                let packet = &packet[..40 + length];
                let (mut next, mut at) = (packet[6], 40);
                while next == 60 {
                    next = packet[at];
                    at += (usize::from(packet[at + 1]) + 1) * 8;
                }
                (next == 6).then(|| (&packet[at..], &packet[8..40]))?
            }
            _ => return None,
        };
        // RFC 9293 section 3.1: the sum of the addresses, protocol, length and all of the segment.
        let head = [6, (tcp.len() >> 16) as u16, tcp.len() as u16];
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
        let sum = [pseudo, &head, tcp].into_iter().map(ones_sum).fold(0, ones_add);
        let has_data = tcp.len() > usize::from(tcp[12] >> 4) * 4;
        has_data.then(|| Self {
            port: u16::from_be_bytes([tcp[0], tcp[1]]),
            push: tcp[13] & 8 != 0,
            sum_is_right: sum == 0xffff,
        })
    }
}

fn ones_add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

fn ones_sum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|word| u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]));
    words.fold(0, ones_add)
}

/// The share of segments with PSH.
fn pushed(segments: &[Segment]) -> f64 {
    segments.iter().filter(|segment| segment.push).count() as f64 / segments.len() as f64
}

fn control(limit: Option<u64>, policy: Policy) -> SocketControl {
    SocketControl { window: 20 * 1448, limit, pacing: None, policy }
}

const BYTES: usize = 2_000_000;

/// Sends so much under the driver, controlled or not, and beats; what was captured at `device`.
fn sent(
    networks: &Networks,
    driver: &Driver,
    place: (&str, &str),
    policy: Option<Policy>,
    prepare: impl FnOnce(&TcpStream),
) -> Vec<Segment> {
    let (address, device) = place;
    let capture = networks.in_far(|| Capture::new(device));
    let (mut sender, reader) = networks.connection(address);
    // All at once in the socket: TCP pushes whenever a program has to wait.
    setsockopt(&sender, sockopt::SndBufForce, &(4 * BYTES)).unwrap();
    prepare(&sender);
    let cookie = select_named(&sender, &driver.0).unwrap();
    let kernel = Kernel::open_named(&driver.0).unwrap();
    if let Some(policy) = policy {
        kernel.control(cookie, control(None, policy)).unwrap();
    }
    let port = sender.local_addr().unwrap().port();
    let writer = thread::spawn(move || {
        sender.write_all(&vec![7; BYTES]).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        // Kept until the last ack, since closing it ends control.
        sender.read_to_end(&mut Vec::new()).unwrap();
    });
    while !writer.is_finished() {
        kernel.beat().unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    writer.join().unwrap();
    assert_eq!(reader.end(), BYTES as u64);
    let segments = capture.segments(port);
    assert!(segments.len() >= BYTES / 1460, "{}", segments.len());
    let wrong = segments.iter().filter(|segment| !segment.sum_is_right).count();
    assert_eq!(wrong, 0, "checksums of {}", segments.len());
    segments
}

/// Destination options in each packet (RFC 8200 section 4.6), as root may ask for: padding.
fn with_extension_header(socket: &TcpStream) {
    // Linux drops packets with more than seven bytes of it.
    const OPTIONS: [u8; 8] = [0, 0, 1, 4, 0, 0, 0, 0];
    // SAFETY: the kernel reads the options, which outlive the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_DSTOPTS,
            OPTIONS.as_ptr().cast(),
            OPTIONS.len() as u32,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn segments_under_control_carry_psh_and_right_sums_and_others_are_left_alone() {
    measured(|| {
        let Some(driver) = Driver::named() else { return };
        let networks = Networks::new();
        let (v4, v6, held) = (("10.1.0.2:0", "vb"), ("[fd01::2]:0", "vb"), Some(Policy::Hold));
        let under = |place, policy| sent(&networks, &driver, place, policy, |_| {});
        let extended = || sent(&networks, &driver, v6, held, with_extension_header);
        driver.install(&["va"]).unwrap();
        // Four segments leave in one piece, of which only the last has it, and TCP sets it by itself.
        ip("link set va gso_max_segs 4");
        for segments in [under(v4, held), under(v6, held), extended()] {
            let share = pushed(&segments);
            assert!((0.24..0.9).contains(&share), "{share}");
        }
        ip("link set va gso_max_segs 1");
        for segments in [under(v4, held), under(v6, held), extended()] {
            assert!(pushed(&segments) == 1.0, "{}", pushed(&segments));
        }
        for place in [v4, v6] {
            for policy in [None, Some(Policy::Follow)] {
                let share = pushed(&under(place, policy));
                assert!(share < 0.5, "{place:?} {policy:?}: {share}");
            }
        }
        // And no more.
        assert!(driver.install(&[]).unwrap().was_there);
        let share = pushed(&under(v4, held));
        assert!(share < 0.5, "{share}");
    });
}

#[test]
fn on_the_device_below_another_sums_are_there_already_and_stay_right() {
    measured(|| {
        let Some(driver) = Driver::named() else { return };
        let networks = Networks::new();
        ip("link add link va name va.m type macvlan mode bridge");
        ip("link set va.m gso_max_segs 1");
        ip("address add 10.5.0.1/24 dev va.m");
        ip("address add fd05::1/64 dev va.m nodad");
        ip("link set va.m up");
        networks.in_far(|| {
            ip("address add 10.5.0.2/24 dev vb");
            ip("address add fd05::2/64 dev vb nodad");
        });
        for devices in [&["va"][..], &["va.m"], &["va", "va.m"]] {
            driver.install(devices).unwrap();
            let names: Vec<_> = devices.iter().map(|device| (device.to_string(), true)).collect();
            assert_eq!(driver.devices(), names);
            for place in [("10.5.0.2:0", "vb"), ("[fd05::2]:0", "vb")] {
                let segments = sent(&networks, &driver, place, Some(Policy::Hold), |_| {});
                assert!(pushed(&segments) == 1.0, "{devices:?} {place:?}: {}", pushed(&segments));
            }
        }
    });
}

#[test]
fn a_tag_of_vlan_is_no_obstacle() {
    let Some(driver) = Driver::named() else { return };
    let networks = Networks::new();
    let made = |device: &str, host: u32| {
        [(5, "on"), (6, "off")].into_iter().all(|(id, reorder)| {
            let tagged = format!("{device}.{id}");
            let options = format!("name {tagged} type vlan id {id} reorder_hdr {reorder}");
            let is_there = Command::new("ip")
                .args(format!("link add link {device} {options}").split(' '))
                .status()
                .unwrap()
                .success();
            if is_there {
                ip(&format!("address add 10.{id}.0.{host}/24 dev {tagged}"));
                ip(&format!("link set {tagged} gso_max_segs 1"));
                ip(&format!("link set {tagged} up"));
            }
            is_there
        })
    };
    if !made("va", 1) || !networks.in_far(|| made("vb", 2)) {
        cellpace_testing::skip("this kernel has no VLANs (CONFIG_VLAN_8021Q)");
        return;
    }
    for devices in [&["va"][..], &["va.5", "va.6"]] {
        driver.install(devices).unwrap();
        for place in [("10.5.0.2:0", "vb.5"), ("10.6.0.2:0", "vb.6")] {
            let segments = sent(&networks, &driver, place, Some(Policy::Hold), |_| {});
            assert!(pushed(&segments) == 1.0, "{devices:?} {place:?}: {}", pushed(&segments));
        }
    }
}

#[test]
fn a_lone_packet_is_acknowledged_at_once() {
    measured(|| {
        let Some(driver) = Driver::named() else { return };
        let networks = Networks::new();
        driver.install(&[]).unwrap();
        let (sender, reader) = networks.connection("10.1.0.2:0");
        let cookie = select_named(&sender, &driver.0).unwrap();
        let mut kernel = Kernel::open_named(&driver.0).unwrap();
        kernel.control(cookie, control(None, Policy::Hold)).unwrap();
        let mut lone_packets_in = |time: Duration| {
            let (end, mut count) = (Instant::now() + time, 0);
            while Instant::now() < end {
                // Whole, and not the last of what was written: a receiver does not wait for its reader.
                send(sender.as_raw_fd(), &[7; 1448], MsgFlags::from_bits_retain(libc::MSG_MORE))
                    .unwrap();
                while unacknowledged(&sender) > 0 && Instant::now() < end {
                    kernel.beat().unwrap();
                    kernel.drain(usize::MAX, drop);
                    thread::yield_now();
                }
                count += 1;
            }
            count
        };
        // A receiver delays no ack of the first packets.
        lone_packets_in(Duration::from_millis(1500));
        let delayed = lone_packets_in(Duration::from_secs(1));
        driver.install(&["va"]).unwrap();
        lone_packets_in(Duration::from_millis(100));
        let prompt = lone_packets_in(Duration::from_secs(1));
        println!("{delayed} packets a second, and {prompt} with prompt acknowledgments");
        assert!((5..50).contains(&delayed), "{delayed}");
        assert!(prompt > 10 * delayed, "{prompt} and {delayed}");
        drop(sender);
        reader.end();
    });
}

/// Bytes that were written and not acknowledged.
fn unacknowledged(socket: &TcpStream) -> i32 {
    let mut bytes = 0;
    // SAFETY: the kernel writes a number.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(result, 0);
    bytes
}

#[test]
fn few_packets_may_be_an_odd_number_while_each_is_acknowledged() {
    measured(|| {
        let Some(driver) = Driver::named() else { return };
        let networks = Networks::new();
        driver.install(&["va"]).unwrap();
        let (sender, reader) = networks.connection("10.1.0.2:0");
        let cookie = select_named(&sender, &driver.0).unwrap();
        let mut kernel = Kernel::open_named(&driver.0).unwrap();
        let mut other = sender.try_clone().unwrap();
        let writer = thread::spawn(move || while other.write_all(&[7; 1 << 16]).is_ok() {});
        let mut window = |packets: u64| {
            let window = packets * 1448;
            kernel
                .control(cookie, SocketControl { window, ..control(None, Policy::Hold) })
                .unwrap();
            let (end, mut last) = (Instant::now() + Duration::from_millis(1500), (0, false));
            while Instant::now() < end {
                kernel.beat().unwrap();
                kernel.drain(usize::MAX, |record| last = (record.cwnd, record.prompt));
                thread::sleep(Duration::from_millis(1));
            }
            last
        };
        assert_eq!([4, 5, 3].map(&mut window), [(4, true), (5, true), (3, true)]);
        // A second after the last packet that was marked.
        driver.install(&[]).unwrap();
        assert_eq!([4, 5, 3].map(&mut window), [(4, false); 3]);
        sender.shutdown(Shutdown::Both).unwrap();
        writer.join().unwrap();
        drop(sender);
        reader.end();
    });
}

#[test]
fn a_device_that_goes_away_is_told_and_comes_back_by_another_installation() {
    let Some(driver) = Driver::named() else { return };
    let networks = Networks::new();
    driver.install(&["va", "lo", "va"]).unwrap();
    assert_eq!(driver.devices(), [("lo".to_owned(), true), ("va".to_owned(), true)]);
    ip("link delete va");
    assert_eq!(driver.devices(), [("lo".to_owned(), true), ("va".to_owned(), false)]);
    // The same again is refused, and nothing is changed by it.
    let error = driver.install(&["lo", "va"]).unwrap_err();
    assert!(matches!(&error, InstallError::Device(name) if name == "va"), "{error}");
    assert_eq!(driver.devices(), [("lo".to_owned(), true), ("va".to_owned(), false)]);
    let done = driver.install_what_is_there(&["lo", "va"], true).unwrap();
    assert_eq!(done.missing, ["va"]);
    assert_eq!(driver.devices(), [("lo".to_owned(), true)]);
    ip("link add va type veth peer name vc");
    driver.install(&["va"]).unwrap();
    assert_eq!(driver.devices(), [("va".to_owned(), true)]);
    // One of another network, by its name there.
    networks.in_far(|| {
        ip("link add vd.1 type veth peer name ve.1");
        driver.install(&["vd.1"]).unwrap();
    });
    assert_eq!(driver.devices(), [("vd.1".to_owned(), true)]);
    ip("link delete va");
    remove(&driver.0).unwrap();
    assert!(!pins(&driver.0).exists());
}

#[test]
fn an_unknown_device_leaves_nothing_installed() {
    let Some(driver) = Driver::named() else { return };
    let error = driver.install(&["lo", "cp_none"]).unwrap_err().to_string();
    assert!(error.contains("no network device `cp_none`"), "{error}");
    assert!(!pins(&driver.0).exists());
    let done = driver.install_what_is_there(&["cp_none"], true).unwrap();
    assert_eq!((done.missing, done.was_there), (vec!["cp_none".to_owned()], false));
    assert_eq!(driver.devices(), []);
}

#[test]
fn a_driver_of_another_size_has_the_devices_too_and_users_may_not_detach_them() {
    use std::os::unix::fs::PermissionsExt;

    use cellpace_kernel::install::DriverAccess;

    let Some(driver) = Driver::named() else { return };
    driver.install(&["lo"]).unwrap();
    let name = driver.0.clone();
    let options = InstallOptions {
        name,
        ring_bytes: 1 << 17,
        access: DriverAccess::Everyone,
        prompt_acks: vec!["lo".to_owned()],
        skip_missing: false,
    };
    assert!(install(&options).unwrap().replaced.is_some());
    assert_eq!(driver.devices(), [("lo".to_owned(), true)]);
    let mode = |pin: &str| {
        let pin = pins(&driver.0).join(pin);
        std::fs::metadata(pin).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(
        [mode("controls"), mode("cc"), mode("prompt_lo"), mode("prompted")],
        [0o666, 0o600, 0o600, 0o600]
    );
}
