//! `cellpace kernel watch`: the sockets of a controller that runs in the kernel by itself.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_base::Span;
use cellpace_kernel::NAME;
use clap::Args;

use crate::dashboard::DashboardOptions;
use crate::error::CommandError;
use crate::options::{Verbosity, whole};

/// Arguments of `cellpace kernel watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace kernel watch
  cellpace kernel watch --count 1 --json -
  cellpace kernel watch --dashboard 9100

All network namespaces are shown. Only a reading costs processor time. Needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.")]
pub(crate) struct WatchArgs {
    /// Which controller
    #[arg(long, value_name = "CONTROLLER", default_value = "pace", value_parser = super::native_names())]
    cc: String,
    /// From one reading to the next
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = interval)]
    every: Span,
    /// End after this many readings
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    count: Option<u32>,
    /// Append a line for each reading as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    dashboard: DashboardOptions,
    #[command(flatten)]
    verbosity: Verbosity,
    /// Name of the congestion control
    #[arg(long, value_name = "NAME", default_value = NAME, hide = true)]
    name: String,
}

fn interval(text: &str) -> Result<Span, String> {
    let span = cellpace_base::parse_span(text).map_err(|error| error.to_string())?;
    let range = Span::from_millis(10)..=Span::from_secs(3600);
    if range.contains(&span) { Ok(span) } else { Err("from 10ms to 1h".to_owned()) }
}

#[cfg(not(feature = "kernel"))]
pub(super) fn run(_: &WatchArgs) -> Result<ExitCode, CommandError> {
    Err(super::without_program())
}

#[cfg(feature = "kernel")]
pub(super) use readings::run;

#[cfg(feature = "kernel")]
mod readings {
    use std::collections::HashMap;
    use std::fmt::Write;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use cellpace_kernel::native::{NativeController, SocketState, Watch};
    use cellpace_live::{
        ConnectionFigures, LiveConnection, LiveConnections, NewConnection, SharedFigures,
    };
    use cellpace_tcp::since_1970;
    use serde::{Serialize, Serializer};

    use super::{CommandError, ExitCode, Span, WatchArgs};
    use crate::dashboard::OpenDashboard;
    use crate::kernel::{native::ours, without_program};
    use crate::output::{append, complain, is_stdout, print_bytes, print_while_read};
    use crate::progress::{end_cleanly_on_ctrl_c, interrupted, service_exit_code};

    /// Rows of a reading on a terminal; the busiest come first.
    const ROWS: usize = 20;

    pub(in crate::kernel) fn run(args: &WatchArgs) -> Result<ExitCode, CommandError> {
        args.dashboard.check()?;
        let native = NativeController::of(&args.cc).ok_or_else(without_program)?;
        let mut watch =
            Watch::open(native, ours(native, &args.name)).map_err(CommandError::failed)?;
        let dashboard = args.dashboard.open("kernel", args.cc.clone(), None, args.verbosity)?;
        let mut shown = Shown::new(&args.cc, dashboard.as_ref().map(OpenDashboard::connections));
        let lines = match &args.json {
            Some(path) if !is_stdout(path) => Some(append("--json", path, Vec::new())?),
            _ => None,
        };
        end_cleanly_on_ctrl_c();
        // Memory for ten thousand sockets, asked for anew at each reading, took more time than the reading.
        let (mut sockets, mut text) = (Vec::new(), Vec::new());
        let (mut left, mut followed, mut is_gone) = (args.count, Instant::now(), false);
        while !interrupted() {
            if followed.elapsed() >= FOLLOW_EVERY {
                followed = Instant::now();
                let was_gone = is_gone;
                is_gone = !watch.follow().map_err(CommandError::failed)?;
                if is_gone && !was_gone {
                    complain(
                        "it is not installed any more: only open connections that keep to it are shown",
                    );
                }
            }
            watch.read(&mut sockets).map_err(CommandError::failed)?;
            shown.update(&sockets);
            if args.json.is_some() {
                write_line(&sockets, &mut text);
            }
            let is_read = match &lines {
                Some(lines) => {
                    lines.put(&text);
                    true
                }
                None if args.json.is_some() => print_bytes(&text)?,
                None => dashboard.is_some() || print_while_read(&table(&sockets))?,
            };
            left = left.map(|left| left - 1);
            if !is_read || left == Some(0) {
                break;
            }
            rest(args.every);
        }
        if let Some(dashboard) = dashboard {
            dashboard.finish();
        }
        if let Some(failed) = lines.and_then(|lines| lines.finish()) {
            return Err(CommandError::failed(failed));
        }
        Ok(if interrupted() { service_exit_code() } else { ExitCode::SUCCESS })
    }

    /// How often to look whether another program has taken the place of the one that is watched.
    const FOLLOW_EVERY: Duration = Duration::from_secs(2);

    /// Until the next reading, or a signal.
    fn rest(span: Span) {
        let until = Instant::now() + Duration::from_nanos(span.as_nanos());
        while !interrupted() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(Duration::from_millis(100)));
        }
    }

    /// The sockets that the dashboard has.
    struct Shown {
        controller: Arc<str>,
        connections: Option<LiveConnections>,
        known: HashMap<(SocketAddr, SocketAddr), (u64, SharedFigures)>,
        opened: u64,
    }

    impl Shown {
        fn new(controller: &str, connections: Option<LiveConnections>) -> Self {
            Self { controller: controller.into(), connections, known: HashMap::new(), opened: 0 }
        }

        fn update(&mut self, sockets: &[SocketState]) {
            let Some(connections) = &self.connections else { return };
            let mut gone = std::mem::take(&mut self.known);
            for socket in sockets {
                let key = (socket.local, socket.remote);
                let (number, figures) = gone.remove(&key).unwrap_or_else(|| {
                    self.opened += 1;
                    let figures = SharedFigures::default();
                    connections.opened(NewConnection {
                        number: self.opened,
                        name: format!("{} - {}", socket.local, socket.remote),
                        controller: self.controller.clone(),
                        driver: "kernel",
                        source: Box::new(figures.clone()),
                    });
                    (self.opened, figures)
                });
                figures.update(|now| *now = figures_of(socket));
                self.known.insert(key, (number, figures));
            }
            for (number, figures) in gone.into_values() {
                connections.closed(number, figures.figures(), "closed");
            }
        }
    }

    fn figures_of(socket: &SocketState) -> ConnectionFigures {
        let packet = u64::from(socket.packet);
        let known = |micros: u32| (micros > 0).then(|| Span::from_micros(micros.into()));
        ConnectionFigures {
            sent_bytes: socket.sent,
            delivered_bytes: socket.acked,
            lost: socket.retransmitted.into(),
            rtt: known(socket.srtt_us),
            min_rtt: known(socket.base_us),
            queue_delay: Some(Span::from_micros(socket.queue_us.into())),
            cwnd: Some(u64::from(socket.window) * packet),
            in_flight: Some(u64::from(socket.in_flight) * packet),
            phase: Some(socket.phase),
            ..ConnectionFigures::default()
        }
    }

    fn write_line(sockets: &[SocketState], text: &mut Vec<u8>) {
        text.clear();
        let time = since_1970().as_secs_f64();
        let reading = Reading { schema: "cellpace.kernel_watch/1", time, sockets };
        serde_json::to_writer(&mut *text, &reading).expect("numbers, words and addresses are JSON");
        text.push(b'\n');
    }

    /// A line of `--json`.
    #[derive(Serialize)]
    struct Reading<'a> {
        schema: &'static str,
        /// UNIX time in seconds.
        time: f64,
        #[serde(serialize_with = "objects")]
        sockets: &'a [SocketState],
    }

    fn objects<S: Serializer>(sockets: &&[SocketState], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(sockets.iter().map(object))
    }

    #[derive(Serialize)]
    struct SocketObject {
        local: SocketAddr,
        remote: SocketAddr,
        phase: &'static str,
        window_packets: u32,
        in_flight_packets: u32,
        packet_bytes: u32,
        base_rtt_ms: f64,
        rtt_ms: f64,
        queue_delay_ms: f64,
        delivery_mbps: f64,
        pacing_mbps: Option<f64>,
        acked_bytes: u64,
        sent_bytes: u64,
        segments: u32,
        retransmitted: u32,
        namespace: u32,
    }

    fn object(socket: &SocketState) -> SocketObject {
        SocketObject {
            local: socket.local,
            remote: socket.remote,
            phase: socket.phase,
            window_packets: socket.window,
            in_flight_packets: socket.in_flight,
            packet_bytes: socket.packet,
            base_rtt_ms: f64::from(socket.base_us) / 1e3,
            rtt_ms: f64::from(socket.srtt_us) / 1e3,
            queue_delay_ms: f64::from(socket.queue_us) / 1e3,
            delivery_mbps: mbps(socket.rate),
            pacing_mbps: (socket.pacing < UNPACED).then(|| mbps(socket.pacing)),
            acked_bytes: socket.acked,
            sent_bytes: socket.sent,
            segments: socket.segments,
            retransmitted: socket.retransmitted,
            namespace: socket.namespace,
        }
    }

    /// A rate above this is none.
    const UNPACED: u64 = 1 << 40;

    fn mbps(bytes_per_sec: u64) -> f64 {
        bytes_per_sec as f64 * 8.0 / 1e6
    }

    fn table(sockets: &[SocketState]) -> String {
        let mut busiest: Vec<&SocketState> = sockets.iter().collect();
        let slower = |socket: &&SocketState| std::cmp::Reverse(socket.rate);
        if busiest.len() > ROWS {
            busiest.select_nth_unstable_by_key(ROWS, slower);
            busiest.truncate(ROWS);
        }
        busiest.sort_by_key(slower);
        let mut text = format!(
            "{:<48} {:>8} {:>9} {:>9} {:>9}  {}\n",
            format!("{} sockets", sockets.len()),
            "window",
            "Mbit/s",
            "base ms",
            "queue ms",
            "phase"
        );
        for socket in busiest {
            let name = format!("{} - {}", socket.local, socket.remote);
            let (base, queue) = (f64::from(socket.base_us) / 1e3, f64::from(socket.queue_us) / 1e3);
            // Writing into a text does not fail.
            let _ = writeln!(
                text,
                "{name:<48} {:>8} {:>9.2} {base:>9.1} {queue:>9.1}  {}",
                socket.window,
                mbps(socket.rate),
                socket.phase
            );
        }
        if sockets.len() > ROWS {
            text += &format!("and {} slower ones\n", sockets.len() - ROWS);
        }
        text
    }
}
