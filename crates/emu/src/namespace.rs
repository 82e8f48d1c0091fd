//! Two network namespaces and a TUN device in each.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::EmuError;
use crate::address::{self, AddressBlock};
use crate::control;
use crate::devices::{Devices, UsedNetwork};
use crate::names::NameServers;
use crate::tun::Tun;

/// The variable with the address of the far side, of the outermost link if links nest.
pub const HOST: &str = "CELLPACE_HOST";
/// The same for IPv6.
pub const HOST6: &str = "CELLPACE_HOST6";

/// How the names of all devices of links begin.
pub(crate) const DEVICES: &str = "cellpace";
/// The name of the device inside. There is nothing else inside that it could clash with.
const INSIDE_DEVICE: &str = DEVICES;
/// The name of the device of the far side; the kernel puts the first free number.
const FAR_DEVICE: &str = "cellpace%d";
/// Packets that wait for the forwarding thread at most: far more than come while it sleeps, since
/// whatever is dropped there was not dropped by the model.
const DEVICE_QUEUE: u32 = 20_000;

/// One end of the link: a device in a namespace.
pub(crate) struct PacketEnd {
    pub(crate) tun: Tun,
    devices: Devices,
}

impl PacketEnd {
    /// The device, and the socket that can ask for its counters.
    pub(crate) fn split(self) -> (Tun, Devices) {
        (self.tun, self.devices)
    }
}

/// Both ends.
pub(crate) struct LinkEnds {
    pub(crate) far: PacketEnd,
    pub(crate) inside: PacketEnd,
    pub(crate) inside_namespace: File,
    pub(crate) block: AddressBlock,
    /// The far side is a namespace of our own, not the one we were started in.
    pub(crate) isolated: bool,
    /// We made a user namespace and have privilege in it only.
    pub(crate) rootless: bool,
    pub(crate) has_v6: bool,
    /// Where requests to change the link come from inside.
    pub(crate) control: Option<UnixListener>,
    pub(crate) names: NameServers,
    /// This namespace is itself the inside of another link: the far end of that.
    pub(crate) around: Option<[IpAddr; 2]>,
}

impl LinkEnds {
    /// Makes both ends. The calling thread must be the only one, and is on the far side afterwards.
    pub(crate) fn open(mtu: u32) -> Result<Self, EmuError> {
        let (isolated, rootless) = enter_far_side()?;
        let far_namespace = current().map_err(EmuError::system("opening the namespace"))?;
        let mut devices = Devices::open().map_err(EmuError::system("opening netlink"))?;
        if isolated {
            devices.switch_loopback_on().map_err(EmuError::system("switching loopback on"))?;
        }
        let networks = devices.networks().map_err(EmuError::system("listing the networks"))?;
        let (tun, block) = far_device(&mut devices, &networks, mtu)?;
        let far_v6 = far_addresses_v6(&mut devices, &tun, block).is_ok();
        let far = PacketEnd { tun, devices };

        unshare(CloneFlags::CLONE_NEWNET).map_err(not_permitted)?;
        let inside_namespace = current().map_err(EmuError::system("opening the namespace"))?;
        let inside = inside_device(block, mtu);
        // A link that cannot be changed is better than none.
        let (control, names) = (control::listen().ok(), NameServers::bind());
        setns(&far_namespace, CloneFlags::CLONE_NEWNET)
            .map_err(EmuError::system("going back to the far side"))?;
        let (inside, inside_v6) = inside?;
        let has_v6 = far_v6 && inside_v6;
        let around = around(&networks, isolated);
        Ok(Self {
            far,
            inside,
            inside_namespace,
            block,
            isolated,
            rootless,
            has_v6,
            control,
            names,
            around,
        })
    }
}

/// The network namespace of the calling thread.
pub(crate) fn current() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// The number by which the kernel knows a namespace.
pub(crate) fn number(namespace: &File) -> io::Result<u64> {
    Ok(namespace.metadata()?.ino())
}

/// The number of the network namespace of a process, if it may be seen.
pub(crate) fn number_of(process: i32) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/net")).ok().map(|facts| facts.ino())
}

/// Goes where the far side shall be: this namespace, if devices may be made in it. Returns
/// whether it is a namespace of our own, and whether a user namespace was needed for that.
fn enter_far_side() -> Result<(bool, bool), EmuError> {
    match Tun::open(FAR_DEVICE) {
        Ok(_) => return Ok((false, false)),
        Err(error) if error.is_refusal() => {}
        Err(error) => return Err(error.into()),
    }
    Ok((true, leave_network()?))
}

/// Leaves the network of this machine for a namespace of our own. Returns whether a user namespace was
/// needed for that.
fn leave_network() -> Result<bool, EmuError> {
    if unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        return Ok(false);
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(not_permitted)?;
    // The program runs as who it would be without the link, so the user keeps the number.
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in maps {
        fs::write(file, text).map_err(|source| EmuError::NotPermitted { source })?;
    }
    unshare(CloneFlags::CLONE_NEWNET).map_err(not_permitted)?;
    Ok(true)
}

/// Moves the calling thread, and what it starts from now on, to a new network namespace with nothing in
/// it but loopback: links that are started there have it as their far side. Without root the process
/// goes to a user namespace as well, the first time; it must have no other thread then.
///
/// # Errors
/// When the system does not permit it.
pub fn enter_empty_network() -> Result<(), EmuError> {
    if leave_network()? {
        keep_privilege().map_err(EmuError::system("keeping privilege in the namespace"))?;
    }
    let mut devices = Devices::open().map_err(EmuError::system("opening netlink"))?;
    devices.switch_loopback_on().map_err(EmuError::system("switching loopback on"))
}

/// In a user namespace of our own, keeps the privilege over its networks across an exec, although we
/// are not root: ping works, and so do links inside.
pub(crate) fn keep_privilege() -> io::Result<()> {
    let kept = CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::NET_RAW
        | CapabilitySet::SYS_ADMIN;
    let mut sets = capabilities(None)?;
    sets.inheritable |= kept;
    set_capabilities(None, sets)?;
    for capability in kept.iter() {
        // Kernels before 4.3 have no such set; then the program has no privilege.
        let _ = configure_capability_in_ambient_set(capability, true);
    }
    Ok(())
}

fn not_permitted(error: Errno) -> EmuError {
    EmuError::NotPermitted { source: error.into() }
}

/// Makes the far side's device and takes a block of addresses for it.
fn far_device(
    devices: &mut Devices,
    networks: &[UsedNetwork],
    mtu: u32,
) -> Result<(Tun, AddressBlock), EmuError> {
    let start = std::process::id();
    for block in AddressBlock::candidates(networks, start)? {
        let tun = Tun::open(FAR_DEVICE)?;
        match far_addresses(devices, &tun, block, mtu) {
            Ok(()) => return Ok((tun, block)),
            // Another link was faster; its route stands, and this device goes.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            Err(error) => return Err(EmuError::system("setting up the far device")(error)),
        }
    }
    Err(EmuError::NoAddress)
}

fn far_addresses(
    devices: &mut Devices,
    tun: &Tun,
    block: AddressBlock,
    mtu: u32,
) -> io::Result<()> {
    let index = devices.index(tun.name())?;
    devices.switch_on(index, mtu, DEVICE_QUEUE)?;
    devices.add_address(index, block.far()[0], block.inside()[0])?;
    let (network, prefix) = block.networks()[0];
    devices.add_route(index, network, prefix)
}

fn far_addresses_v6(devices: &mut Devices, tun: &Tun, block: AddressBlock) -> io::Result<()> {
    let index = devices.index(tun.name())?;
    devices.add_address(index, block.far()[1], block.inside()[1])?;
    let (network, prefix) = block.networks()[1];
    devices.add_route(index, network, prefix)?;
    await_v6(block.far()[1], block.inside()[1])
}

/// Waits until an IPv6 address can be used: the kernel finishes it on a thread of its own.
fn await_v6(local: IpAddr, peer: IpAddr) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(1);
    const TRIES: u32 = 2_000;
    let is_usable = || -> io::Result<bool> {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        // Sends nothing; the port is that of discard.
        socket.connect((peer, 9))?;
        Ok(socket.local_addr()?.ip() == local)
    };
    for _ in 0..TRIES {
        if is_usable().unwrap_or(false) {
            return Ok(());
        }
        sleep(PAUSE);
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Makes the device inside, in the namespace of this thread. Returns whether it has IPv6.
fn inside_device(block: AddressBlock, mtu: u32) -> Result<(PacketEnd, bool), EmuError> {
    let mut devices = Devices::open().map_err(EmuError::system("opening netlink inside"))?;
    devices.switch_loopback_on().map_err(EmuError::system("switching loopback on inside"))?;
    let tun = Tun::open(INSIDE_DEVICE)?;
    let v6 = inside_addresses(&mut devices, &tun, block, mtu)
        .map_err(EmuError::system("setting up the device inside"))?;
    // Links that are started inside are reached through here. Where /proc/sys is read-only, as in
    // some containers, links just do not nest.
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        let _ = fs::write(format!("/proc/sys/net/{file}"), "1");
    }
    Ok((PacketEnd { tun, devices }, v6))
}

fn inside_addresses(
    devices: &mut Devices,
    tun: &Tun,
    block: AddressBlock,
    mtu: u32,
) -> io::Result<bool> {
    let index = devices.index(tun.name())?;
    devices.switch_on(index, mtu, DEVICE_QUEUE)?;
    let mut family = |which: usize| -> io::Result<()> {
        devices.add_address(index, block.inside()[which], block.far()[which])?;
        let (network, prefix) = block.networks()[which];
        let any = if which == 0 { [0; 4].into() } else { [0_u16; 8].into() };
        devices.add_route(index, any, 0)?;
        // Packets to unused addresses of the block would loop between the ends. Links inside also
        // find the addresses that they may use by this route.
        devices.add_unreachable(network, prefix)
    };
    family(0)?;
    let has_v6 = family(1).and_then(|()| await_v6(block.inside()[1], block.far()[1]));
    Ok(has_v6.is_ok())
}

/// The outermost far side, where this namespace is the inside of a link: from the environment
/// that the link set, or else the other end of its device.
fn around(networks: &[UsedNetwork], isolated: bool) -> Option<[IpAddr; 2]> {
    if isolated {
        return None;
    }
    let block =
        networks.iter().find(|network| network.unreachable && address::is_ours(network.address))?;
    let from_environment =
        |name| std::env::var(name).ok()?.parse().ok().filter(|ip| address::is_ours(*ip));
    match (from_environment(HOST), from_environment(HOST6)) {
        (Some(v4), Some(v6)) => Some([v4, v6]),
        _ => AddressBlock::of(block).map(AddressBlock::far),
    }
}

/// Moves the calling thread, and what it starts from now on, into a namespace.
pub(crate) fn enter(namespace: &File) -> nix::Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWNET)
}
