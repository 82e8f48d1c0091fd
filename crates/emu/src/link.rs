//! One link from its making to its end.

use std::net::IpAddr;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cellpace_base::{Span, Time};
use cellpace_measure::DelaySketch;
use cellpace_os::process;
use cellpace_os::signals::Signals;
use cellpace_path::DuplexSpec;
use nix::sys::signal::Signal;

use crate::EmuError;
use crate::beyond::{Beyond, FarRoutes};
use crate::control::{self, ControlledLink, ReadChange};
use crate::devices::Devices;
use crate::expose::{Expose, Exposed};
use crate::forward::{ForwardControl, Forwarded, Forwarder, ForwarderParts, RunClock};
use crate::guard::{Guard, kill_all, signal_all};
use crate::names::RefusedNames;
use crate::namespace::{self, HOST, HOST6, LinkEnds};
use crate::nat::Nat;
use crate::observe::{LinkObserver, SeenBatch, SeenPacket};
use crate::program::{self, FarProgram};
use crate::realtime;
use crate::rests::{LINK, own_name};
use crate::tun::Tun;
/// The other end of this very link, which differs from [`HOST`] in nested links only.
const PEER: &str = "CELLPACE_PEER";
const PEER6: &str = "CELLPACE_PEER6";
/// The program's own address, for those on the far side.
const INSIDE: &str = "CELLPACE_INSIDE";
const INSIDE6: &str = "CELLPACE_INSIDE6";

/// The configuration of a link.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    /// Both directions: down towards the inside.
    pub link: DuplexSpec,
    /// Seed of everything random.
    pub seed: u64,
    /// Time limit of the program: it gets SIGTERM afterwards.
    pub duration: Option<Span>,
    /// Ports of the inside to expose where we were started.
    pub expose: Vec<Expose>,
    /// Whether the inside can reach the outside world.
    pub nat: bool,
    /// How requests to change the running link are read.
    pub read_change: ReadChange,
    /// How long the inside must be silent after the program's end before the link ends, too: a
    /// little more than a round trip, so that its last bytes arrive.
    pub quiet: Span,
}

/// How long a program that has ended may keep its link busy.
const PATIENCE: Span = Span::from_secs(1);

/// Largest packet in bytes, IP header included.
const MTU: u32 = 1500;

/// Batches on their way to the observer: some million records.
const BATCHES: usize = 4096;

/// Both ends are there, and nothing runs yet.
pub struct EmulatedLink {
    ends: LinkEnds,
    spec: LinkSpec,
    signals: Signals,
    guard: Guard,
    inside_number: u64,
    exposed: Vec<Exposed>,
    nat: Option<Nat>,
    /// Where requests to change the link come from outside.
    control: Option<UnixListener>,
    beyond: Beyond,
}

/// How a run ended.
#[derive(Debug)]
pub struct LinkOutcome<O> {
    /// The program's exit code; 128 and the signal's number if a signal ended it.
    pub exit_code: u8,
    /// From the program's start to its end.
    pub duration: Span,
    /// How long after its theoretical departure each packet was handed over.
    pub lateness: DelaySketch,
    /// What was lost on the way and not by the model.
    pub lost: OwnLosses,
    /// Whether the forwarding thread had real-time priority.
    pub realtime: bool,
    /// The observer with what it saw.
    pub observer: O,
}

/// Losses that are the emulator's, not the model's. All should be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnLosses {
    /// Packets the devices dropped before they were read.
    pub device: u64,
    /// Packets that the kernel did not accept, or for which there was no memory.
    pub refused: u64,
    /// Packets that are missing in the observer's logs and figures.
    pub unseen: u64,
}

impl OwnLosses {
    /// Packets that did not arrive although the model let them.
    pub fn packets(self) -> u64 {
        self.device + self.refused
    }
}

impl EmulatedLink {
    /// Makes the namespaces and devices of a link. The calling thread must be the only one of the
    /// process: it moves to the far side, and a process is forked.
    ///
    /// # Errors
    /// When the system does not permit it, or has no TUN devices or addresses.
    pub fn open(spec: LinkSpec) -> Result<Self, EmuError> {
        let signals = program::catch_signals()?;
        // Ports are taken where our users are, which may not be where the far side will be.
        let ports = spec.expose.iter().map(|port| Exposed::bind(*port));
        let exposed = ports.collect::<Result<Vec<_>, _>>()?;
        // Seen by those who share this network namespace; a link that cannot be changed is
        // better than none.
        let control = control::listen().ok();
        let ends = LinkEnds::open(MTU)?;
        let inside_number = namespace::number(&ends.inside_namespace)
            .map_err(EmuError::system("looking at the namespace"))?;
        let guard = Guard::start(&ends.inside_namespace)?;
        let nat = if spec.nat { Some(start_nat(&ends)?) } else { None };
        let routes = far_routes(&ends, spec.nat).map_err(EmuError::system("looking at routes"))?;
        let beyond = Beyond::new(routes, ends.block.far());
        Ok(Self { ends, spec, signals, guard, inside_number, exposed, nat, control, beyond })
    }

    /// Whether the far side is a namespace of its own instead of the one we were started in.
    pub fn is_isolated(&self) -> bool {
        self.ends.isolated
    }

    /// Environment variables of the program inside.
    pub fn environment(&self) -> Vec<(String, String)> {
        let far = self.ends.block.far();
        let host = self.ends.around.unwrap_or(far);
        let inside = self.ends.block.inside();
        let named = |names: [&str; 2], addresses: [IpAddr; 2]| {
            let families = if self.ends.has_v6 { 2 } else { 1 };
            let pairs = names.into_iter().zip(addresses).take(families);
            pairs.map(|(name, ip)| (name.to_owned(), ip.to_string())).collect::<Vec<_>>()
        };
        let link = std::iter::once((LINK.to_owned(), own_name()));
        [([HOST, HOST6], host), ([PEER, PEER6], far), ([INSIDE, INSIDE6], inside)]
            .into_iter()
            .flat_map(|(names, addresses)| named(names, addresses))
            .chain(link)
            .collect()
    }

    /// Runs a program inside until it ends; `far` is one that runs on the far side meanwhile.
    ///
    /// # Errors
    /// When a program cannot be started or a trace cannot be had.
    pub fn run<O: LinkObserver>(
        self,
        program: Command,
        far: Option<Command>,
        observer: O,
    ) -> Result<LinkOutcome<O>, EmuError> {
        let environment = self.environment();
        let inside_address = self.ends.block.inside()[0];
        let Self { ends, spec, signals, guard, inside_number, exposed, nat, control, beyond } =
            self;
        let LinkEnds { far: far_end, inside: inside_end, inside_namespace, rootless, .. } = ends;
        let listeners = control.into_iter().chain(ends.control).collect();
        let DuplexSpec { down, up } = &spec.link;
        let (down, mut up) = (down.build(spec.seed)?, up.build_reverse(spec.seed)?);
        up.share_radio(&down);
        let paths = [down, up];
        let (far_tun, mut far_devices) = far_end.split();
        let (inside_tun, mut inside_devices) = inside_end.split();
        let names = [far_tun.name().to_owned(), inside_tun.name().to_owned()];

        // A link around this one decides itself.
        let leaves = spec.nat || ends.around.is_some();
        let refused = ends.names.serve(leaves).map_err(EmuError::system("starting a thread"))?;
        let model = LinkModel { paths, beyond, refused };
        let mut far_program = far.map(|far| FarProgram::start(far, &environment)).transpose()?;
        far_program.as_mut().map_or(Ok(()), FarProgram::check)?;
        let traffic = TrafficThreads::start([far_tun, inside_tun], model, &spec, observer)?;
        let duration = spec.duration;
        traffic.serve(listeners, spec).map_err(EmuError::system("starting a thread"))?;
        for exposed in exposed {
            exposed.relay(inside_address).map_err(EmuError::system("starting a thread"))?;
        }
        let inside = Some(&inside_namespace);
        let child = program::start(program, &environment, inside, rootless);
        let played = child.and_then(|child| {
            let all = |signal| {
                signal_all(inside_number, &guard, signal);
            };
            let ended = play(child, &signals, duration, traffic.clock, &all);
            if let Ok(ended) = &ended {
                let end = Time::ZERO + ended.duration;
                traffic.end.store(end.as_nanos(), Ordering::Release);
            }
            ended
        });
        drop(far_program);
        kill_all(inside_number, &guard);
        let in_haste = played.as_ref().map_or(true, |played| played.asked_to_end);
        let (forwarded, tuns, realtime, observer) = traffic.finish(in_haste)?;
        let counters = [far_devices.counters(&names[0]), inside_devices.counters(&names[1])];
        drop((tuns, nat, guard));
        let played = played?;
        let device = counters.into_iter().flatten().map(|c| c.tx_dropped + c.rx_dropped).sum();
        Ok(LinkOutcome {
            exit_code: played.exit_code,
            duration: played.duration,
            lateness: forwarded.lateness,
            lost: OwnLosses { device, refused: forwarded.refused, unseen: forwarded.unseen },
            realtime,
            observer,
        })
    }
}

/// What decides where packets from inside can go. A link around this one decides itself.
fn far_routes(ends: &LinkEnds, nat: bool) -> std::io::Result<Option<FarRoutes>> {
    if ends.around.is_some() {
        return Ok(None);
    }
    let mut devices = Devices::open()?;
    let index = devices.index(ends.far.tun.name())?;
    Ok(Some(FarRoutes { devices, index, inside: ends.block.inside(), nat }))
}

fn start_nat(ends: &LinkEnds) -> Result<Nat, EmuError> {
    if ends.isolated {
        return Err(EmuError::NatNeedsRoot);
    }
    Nat::start(ends.block, ends.far.tun.name()).map_err(EmuError::system(
        "letting the inside out to the world (nftables with NAT and a writable /proc/sys are needed)",
    ))
}

struct ChildOutcome {
    exit_code: u8,
    duration: Span,
    /// A signal asked us to end.
    asked_to_end: bool,
}

fn play(
    mut child: Child,
    signals: &Signals,
    limit: Option<Span>,
    clock: RunClock,
    all: &dyn Fn(Signal),
) -> Result<ChildOutcome, EmuError> {
    let limit = limit.map(Duration::from);
    let (status, asked_to_end) = program::wait(&mut child, signals, limit, all)?;
    let duration = clock.now() - Time::ZERO;
    Ok(ChildOutcome { exit_code: process::exit_code(status), duration, asked_to_end })
}

/// What the forwarding thread decides by.
struct LinkModel {
    /// Towards the inside, and back.
    paths: [cellpace_path::Path; 2],
    beyond: Beyond,
    refused: RefusedNames,
}

/// The two threads of a link: one forwards, one watches.
struct TrafficThreads<O> {
    clock: RunClock,
    control: Arc<ForwardControl>,
    /// When the program ended, in nanoseconds; the end of time while it runs.
    end: Arc<AtomicU64>,
    forwarder: JoinHandle<(Forwarded, [Tun; 2], bool)>,
    watcher: JoinHandle<O>,
}

impl<O: LinkObserver> TrafficThreads<O> {
    fn start(
        tuns: [Tun; 2],
        model: LinkModel,
        spec: &LinkSpec,
        observer: O,
    ) -> Result<Self, EmuError> {
        let control = Arc::new(ForwardControl::new().map_err(EmuError::system("making an event"))?);
        let clock = RunClock::start();
        let end = Arc::new(AtomicU64::new(u64::MAX));
        let watched_end = Arc::clone(&end);
        let (sender, batches) = sync_channel(BATCHES);
        let parts = ForwarderParts {
            tuns,
            paths: model.paths,
            mtu: MTU as usize,
            beyond: model.beyond,
            clock,
            control: Arc::clone(&control),
            batches: sender,
            capture: observer.capture_bytes(),
            quiet: spec.quiet,
            patience: PATIENCE,
        };
        let watcher = thread::Builder::new().name("watch".to_owned());
        let watcher = watcher
            .spawn(move || watch(observer, &batches, &model.refused, clock, &watched_end))
            .map_err(EmuError::system("starting a thread"))?;
        let forwarder = thread::Builder::new().name("forward".to_owned());
        let forwarder = forwarder
            .spawn(move || {
                let realtime = realtime::prepare();
                let (forwarded, tuns) = Forwarder::new(parts).run();
                (forwarded, tuns, realtime)
            })
            .map_err(EmuError::system("starting a thread"))?;
        Ok(Self { clock, control, end, forwarder, watcher })
    }

    /// Takes requests to change the link from now on.
    fn serve(&self, listeners: Vec<UnixListener>, spec: LinkSpec) -> std::io::Result<()> {
        let controlled = ControlledLink {
            link: Mutex::new(spec.link),
            seed: spec.seed,
            read_change: spec.read_change,
            forward: Arc::clone(&self.control),
        };
        control::serve(listeners, controlled)
    }

    fn finish(self, in_haste: bool) -> Result<(Forwarded, [Tun; 2], bool, O), EmuError> {
        if in_haste {
            self.control.stop();
        } else {
            self.control.drain();
        }
        let panicked =
            |what| move |_| EmuError::System { what, source: std::io::Error::other("it panicked") };
        let (forwarded, tuns, realtime) =
            self.forwarder.join().map_err(panicked("the forwarding thread"))?;
        let observer = self.watcher.join().map_err(panicked("the watching thread"))?;
        Ok((forwarded, tuns, realtime, observer))
    }
}

/// Interval of the observer's [`LinkObserver::on_tick`].
const TICK: Duration = Duration::from_millis(100);

fn watch<O: LinkObserver>(
    mut observer: O,
    batches: &Receiver<SeenBatch>,
    refused: &RefusedNames,
    clock: RunClock,
    end: &AtomicU64,
) -> O {
    let mut last_tick = clock.now();
    loop {
        match batches.recv_timeout(TICK) {
            Ok(batch) => show(&mut observer, &batch, end),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                refused.take().into_iter().for_each(|server| observer.on_unreachable(server));
                return observer;
            }
        }
        let now = clock.now();
        if now.since(last_tick) >= TICK.into() {
            last_tick = now;
            refused.take().into_iter().for_each(|server| observer.on_unreachable(server));
            observer.on_tick(now);
        }
    }
}

fn show(observer: &mut impl LinkObserver, batch: &SeenBatch, end: &AtomicU64) {
    let end = Time::from_nanos(end.load(Ordering::Acquire));
    for capture in &batch.captures {
        let bytes = &batch.bytes[capture.range.clone()];
        observer.on_capture(capture.side, capture.at, capture.length, bytes);
    }
    batch.flows.iter().for_each(|(flow, addresses)| observer.on_flow(*flow, addresses));
    batch.changes.iter().for_each(|change| observer.on_change(change));
    batch.unreachable.into_iter().for_each(|to| observer.on_unreachable(to));
    for seen in &batch.seen {
        observer
            .on_packet(&SeenPacket { after_end: seen.record.packet.departed_at > end, ..*seen });
    }
}
