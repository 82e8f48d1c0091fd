//! What a reader of a recording has to know of the machine. No name, user, address or path.

use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// The facts of a machine that figures of real packets depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// How many threads run at the same time.
    pub cores: usize,
    /// The processor, as it names itself.
    pub cpu: String,
    /// Memory in MB.
    pub memory_mb: u64,
    /// The version of the kernel.
    pub kernel: String,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// Whether threads could have real-time priority.
    pub has_real_time_priority: bool,
}

impl Machine {
    /// This machine, as far as it tells.
    pub(crate) fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo");
        let field = |text: &str, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes = memory.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        let capabilities = field(&read("/proc/self/status"), "CapEff").unwrap_or_default();
        let capabilities = u64::from_str_radix(&capabilities, 16).unwrap_or(0);
        let flags = field(&processor, "flags").unwrap_or_default();
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            cpu: field(&processor, "model name").unwrap_or_else(|| "unknown".to_owned()),
            memory_mb: kilobytes.unwrap_or(0) / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            is_virtual: flags.split(' ').any(|flag| flag == "hypervisor"),
            has_real_time_priority: capabilities >> CAP_SYS_NICE & 1 == 1,
        }
    }

    /// In a line.
    pub(crate) fn text(&self) -> String {
        let Self { cores, cpu, memory_mb, kernel, .. } = self;
        let kind = if self.is_virtual { "virtual machine" } else { "machine" };
        format!("{kind} with {cores} cores ({cpu}), {memory_mb} MB, Linux {kernel}")
    }
}

/// The number of this capability (`linux/capability.h`).
const CAP_SYS_NICE: u32 = 23;

/// How many processes have wanted to run in the last minute, in the mean; 0 where that is not known.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// How much later than asked timers fire, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The most.
    pub max: u64,
}

/// How many timers are measured, and how long each is.
const TIMERS: usize = 200;
const TIMER: Duration = Duration::from_millis(2);

impl Lateness {
    /// Of some timers, in less than a second.
    pub(crate) fn now() -> Self {
        let one = |_| {
            let asked = Instant::now() + TIMER;
            thread::sleep(TIMER);
            asked.elapsed().as_micros() as u64
        };
        Self::of((0..TIMERS).map(one).collect())
    }

    /// Of these, of which there is at least one.
    fn of(mut late: Vec<u64>) -> Self {
        late.sort_unstable();
        let at = |share: f64| late[((late.len() as f64 * share) as usize).min(late.len() - 1)];
        Self { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }

    /// The larger of each.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            p50: self.p50.max(other.p50),
            p99: self.p99.max(other.p99),
            max: self.max.max(other.max),
        }
    }
}

/// The day in UTC as `2026-11-23`.
pub(crate) fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    // Howard Hinnant's civil_from_days, for days after 1970.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let on = |days: u64| date(SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400 + 7));
        assert_eq!(on(0), "1970-01-01");
        assert_eq!(on(19_782), "2024-02-29");
        assert_eq!(on(19_783), "2024-03-01");
        assert_eq!(on(20_780), "2026-11-23");
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.memory_mb > 0 && !machine.kernel.is_empty());
        assert!(machine.text().contains("Linux"));
    }

    #[test]
    fn lateness_is_ordered() {
        let late = Lateness::of((0..200).rev().collect());
        assert_eq!(late, Lateness { p50: 100, p99: 198, max: 199 });
        assert_eq!(late.or(Lateness { p50: 300, p99: 0, max: 0 }).p50, 300);
    }
}
