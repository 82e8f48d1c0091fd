//! What breaks, for whom, and when.

use std::fmt::{self, Display};
use std::time::Duration;

use cellpace_base::Random;

/// The command that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Run,
    Proxy,
    Attach,
    /// A controller in the kernel by itself, and `kernel watch`.
    Native,
    Link,
    Send,
    /// `send` and `recv` inside QUIC.
    Quic,
}

/// The part of a subject that something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The command itself; of `send` and `recv` the receiver.
    Command,
    /// The server for whom it works.
    Server,
    /// Those who transfer; of `send` and `recv` the sender.
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill(Role),
    Stop(Role),
    /// Whatever the command writes is on a disk of 256 kB.
    FullDisk,
    /// It has 64 descriptors, with 40 clients.
    FewDescriptors,
    /// It has 8 to 64 MB, in a cgroup.
    LittleMemory,
    /// The wall clock that it sees steps, by an hour or by years.
    ClockStep,
    InterfaceDown,
    /// Packets larger than 1280 bytes vanish for a while.
    SmallMtu,
    /// Packets come in another order, twice, and damaged.
    Impaired,
    AddressChange,
    /// Nothing reads what the command prints, of which there is a lot.
    UnreadOutput,
    /// The controller is replaced, removed and installed under its connections, some of it by commands that
    /// are killed.
    Exchanged,
    /// Connections share a window, and 30 of the clients' address read nothing.
    StalledMembers,
}

use Fault::{Kill, Stop};
use Role::{Client, Command, Server};

/// What happens to every subject.
const COMMON: &[Fault] = &[
    Kill(Command),
    Stop(Command),
    Kill(Client),
    Stop(Client),
    Fault::FullDisk,
    Fault::FewDescriptors,
    Fault::LittleMemory,
    Fault::ClockStep,
    Fault::InterfaceDown,
    Fault::SmallMtu,
    Fault::Impaired,
];

const CONTROLLERS: [&str; 6] = ["verus", "verus:r=2", "copa", "cubic", "bbr", "fixed:cwnd=50pkts"];

/// Steps of the wall clock, as libfaketime writes them.
const STEPS: [&str; 4] = ["+1h", "-1h", "+1y", "-10y"];

/// One run. Everything in it follows from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) subject: Subject,
    pub(crate) fault: Fault,
    pub(crate) controller: &'static str,
    /// How long it goes well at first.
    pub(crate) moment: Duration,
    /// How long what can pass lasts.
    pub(crate) lasts: Duration,
    /// Bytes that the command may have, where it has few.
    pub(crate) memory: u64,
    /// How far the clock steps.
    pub(crate) step: &'static str,
}

impl Case {
    /// The case of a seed. Seeds that follow each other try every pair in turn.
    pub(crate) fn of(seed: u64) -> Self {
        let pairs = pairs();
        let count = pairs.len() as u64;
        // Neighbours differ in both parts: 37 and the number of pairs have no common factor.
        let (subject, fault) = pairs[(seed % count * 37 % count) as usize];
        let mut random = Random::seeded(seed, 0);
        let moment = Duration::from_millis(100 + random.below(1500));
        let lasts = Duration::from_secs([1, 2, 10][random.below(3) as usize]);
        let controllers: &[&str] = match subject {
            Subject::Native => &["pace", "copa"],
            _ => &CONTROLLERS,
        };
        let controller = controllers[random.below(controllers.len() as u64) as usize];
        // With less they do not begin: what `attach` has in the kernel counts, and the program of `run`.
        let least = if matches!(subject, Subject::Attach | Subject::Run) { 20 } else { 8 };
        let memory = least + random.below(65 - least);
        let step = STEPS[random.below(4) as usize];
        Self { seed, subject, fault, controller, moment, lasts, memory: memory << 20, step }
    }

    /// Whether a transfer may fail with an error.
    pub(crate) fn may_cut(&self) -> bool {
        match self.fault {
            Kill(Command) => !matches!(self.subject, Subject::Attach | Subject::Native),
            Kill(Server | Client) | Fault::AddressChange => true,
            Fault::LittleMemory | Fault::FullDisk => self.subject.is_transfer() || self.may_end(),
            // The packets of the native transport have one size, and its flows give up in the end.
            Fault::SmallMtu => self.subject.is_transfer(),
            // A device that is down answers that there is no way.
            Fault::InterfaceDown => self.subject == Subject::Link,
            _ => false,
        }
    }

    /// Whether the command may be ended by what happens, and is started again then.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self.fault, Fault::LittleMemory | Kill(Command))
    }

    /// Whether some process is ended without notice.
    pub(crate) fn kills(&self) -> bool {
        matches!(self.fault, Fault::LittleMemory | Kill(_))
            || (self.fault == Fault::AddressChange && !self.subject.is_transfer())
    }

    /// Whether a connection may end in order before its last byte: when a process that holds it is
    /// killed, the kernel ends it so. SECURITY.md says where.
    pub(crate) fn may_be_short(&self) -> bool {
        let relay = matches!(self.subject, Subject::Run | Subject::Proxy);
        match self.fault {
            Kill(Command) | Fault::LittleMemory => relay,
            Kill(Server | Client) => true,
            _ => false,
        }
    }

    /// Whether the clients are behind an emulated link.
    pub(crate) fn is_linked(&self) -> bool {
        self.subject == Subject::Link || self.fault == Fault::Impaired
    }

    pub(crate) fn clients(&self) -> u32 {
        if self.fault == Fault::FewDescriptors { 40 } else { 4 }
    }
}

/// Every pair that is tried.
fn pairs() -> Vec<(Subject, Fault)> {
    let subjects = [
        Subject::Run,
        Subject::Proxy,
        Subject::Attach,
        Subject::Native,
        Subject::Link,
        Subject::Send,
        Subject::Quic,
    ];
    let mut pairs = Vec::new();
    for subject in subjects {
        pairs.extend(COMMON.iter().map(|fault| (subject, *fault)));
        if !subject.is_transfer() {
            pairs.extend([(subject, Kill(Server)), (subject, Stop(Server))]);
        }
        if subject != Subject::Link {
            pairs.extend([(subject, Fault::AddressChange), (subject, Fault::UnreadOutput)]);
        }
        if subject == Subject::Native {
            pairs.push((subject, Fault::Exchanged));
        }
        if matches!(subject, Subject::Run | Subject::Proxy) {
            pairs.push((subject, Fault::StalledMembers));
        }
    }
    assert!(!pairs.len().is_multiple_of(37), "neighbours would be alike");
    pairs
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Proxy => "proxy",
            Self::Attach => "attach",
            Self::Native => "kernel install --cc",
            Self::Link => "link",
            Self::Send => "send/recv",
            Self::Quic => "send/recv --quic",
        }
    }

    /// Whether it is `send` and `recv`.
    pub(crate) fn is_transfer(self) -> bool {
        matches!(self, Self::Send | Self::Quic)
    }

    /// What both ends of a transfer are given.
    pub(crate) fn transport(self) -> &'static str {
        if self == Self::Quic { "--quic" } else { "" }
    }
}

impl Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = |role: &Role| match role {
            Command => "the command",
            Server => "the server",
            Client => "the client",
        };
        match self {
            Kill(who) => write!(out, "kill -9 of {}", role(who)),
            Stop(who) => write!(out, "SIGSTOP of {}", role(who)),
            Self::FullDisk => out.write_str("full disk"),
            Self::FewDescriptors => out.write_str("64 descriptors"),
            Self::LittleMemory => out.write_str("8 to 64 MB of memory"),
            Self::ClockStep => out.write_str("step of the wall clock"),
            Self::InterfaceDown => out.write_str("interface down"),
            Self::SmallMtu => out.write_str("MTU of 1280"),
            Self::Impaired => out.write_str("reordered, twice, damaged"),
            Self::AddressChange => out.write_str("other address"),
            Self::UnreadOutput => out.write_str("output unread"),
            Self::Exchanged => out.write_str("replaced and removed"),
            Self::StalledMembers => out.write_str("30 stalled in a shared window"),
        }
    }
}

impl Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, subject, fault, controller, moment, lasts, memory, step } = self;
        write!(out, "seed {seed}: {} under {controller}, {fault}", subject.name())?;
        match fault {
            Fault::LittleMemory => write!(out, " ({} MB)", memory >> 20),
            Fault::FullDisk
            | Fault::FewDescriptors
            | Fault::Impaired
            | Fault::UnreadOutput
            | Fault::StalledMembers => Ok(()),
            Fault::ClockStep => write!(out, " ({step} at {:.1} s)", moment.as_secs_f64()),
            Kill(_) | Fault::AddressChange => write!(out, " at {:.1} s", moment.as_secs_f64()),
            _ => write!(out, " for {} s at {:.1} s", lasts.as_secs(), moment.as_secs_f64()),
        }
    }
}
