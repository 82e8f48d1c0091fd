//! Which connections a client sees, and what of each.

use serde_json::Value;

use crate::connections::{LiveState, OpenConnection};
use crate::figures::ConnectionFigures;
use crate::request::Request;
use crate::summary::round;

/// Rows that a client gets unless it asks for fewer or more.
const DEFAULT_ROWS: usize = 100;
/// Rows that a client gets at most.
const MAX_ROWS: usize = 500;

/// A column of the table of connections.
pub struct LiveColumn {
    /// Its name in the data.
    pub name: &'static str,
    /// Its title on the page.
    pub title: &'static str,
    /// The unit of its values; empty for words and counts.
    pub unit: &'static str,
    /// What its values mean.
    pub help: &'static str,
    value: fn(&ConnectionRow<'_>) -> Value,
    /// What rows are sorted by; `None` comes last.
    key: fn(&ConnectionRow<'_>) -> Option<f64>,
}

/// A connection with its figures.
struct ConnectionRow<'a> {
    number: u64,
    open: &'a OpenConnection,
    figures: &'a ConnectionFigures,
}

fn ms(span: Option<cellpace_base::Span>) -> Value {
    span.map(|span| round(span.as_millis_f64())).into()
}

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// The word's first letters as a number that sorts as the words do.
fn word(text: &str) -> f64 {
    let letters = text.bytes().chain(std::iter::repeat(0)).take(6);
    letters.fold(0.0, |key, letter| key * 256.0 + f64::from(letter))
}

/// The columns, in their order in a row after the connection's number.
pub const COLUMNS: &[LiveColumn] = &[
    LiveColumn {
        name: "connection",
        title: "Connection",
        unit: "",
        help: "Addresses: ours, and the peer's; the arrow points to the side that accepted",
        value: |row| row.open.name.as_str().into(),
        key: |row| Some(row.number as f64),
    },
    LiveColumn {
        name: "rate",
        title: "Rate",
        unit: "Mbit/s",
        help: "What arrived at the other end within the last half second",
        value: |row| round(row.open.rate_bps / 1e6).into(),
        key: |row| Some(row.open.rate_bps),
    },
    LiveColumn {
        name: "rtt",
        title: "RTT",
        unit: "ms",
        help: "Smoothed round-trip time",
        value: |row| ms(row.figures.rtt),
        key: |row| row.figures.rtt.map(cellpace_base::Span::as_secs_f64),
    },
    LiveColumn {
        name: "queue",
        title: "Queue",
        unit: "ms",
        help: "Estimate of the time that packets wait in queues: the RTT above the smallest one",
        value: |row| ms(row.figures.queue_delay),
        key: |row| row.figures.queue_delay.map(cellpace_base::Span::as_secs_f64),
    },
    LiveColumn {
        name: "cwnd",
        title: "Window",
        unit: "bytes",
        help: "What the controller lets be in flight",
        value: |row| row.figures.cwnd.into(),
        key: |row| number(row.figures.cwnd),
    },
    LiveColumn {
        name: "in_flight",
        title: "In flight",
        unit: "bytes",
        help: "Sent and not acknowledged yet",
        value: |row| row.figures.in_flight.into(),
        key: |row| number(row.figures.in_flight),
    },
    LiveColumn {
        name: "queued",
        title: "Waiting",
        unit: "bytes",
        help: "What the program has written and the controller has not let go yet",
        value: |row| row.figures.queued.into(),
        key: |row| number(row.figures.queued),
    },
    LiveColumn {
        name: "lost",
        title: "Losses",
        unit: "",
        help: "Segments that TCP sent again, or packets that were dropped",
        value: |row| row.figures.lost.into(),
        key: |row| Some(row.figures.lost as f64),
    },
    LiveColumn {
        name: "phase",
        title: "Phase",
        unit: "",
        help: "What the controller is doing, where it says so",
        value: |row| row.figures.phase.into(),
        key: |row| row.figures.phase.map(word),
    },
    LiveColumn {
        name: "delivered",
        title: "Delivered",
        unit: "bytes",
        help: "What has arrived at the other end since the connection began",
        value: |row| row.figures.delivered_bytes.into(),
        key: |row| Some(row.figures.delivered_bytes as f64),
    },
    LiveColumn {
        name: "min_rtt",
        title: "Smallest RTT",
        unit: "ms",
        help: "The RTT without queues, as far as the connection has seen it",
        value: |row| ms(row.figures.min_rtt),
        key: |row| row.figures.min_rtt.map(cellpace_base::Span::as_secs_f64),
    },
    LiveColumn {
        name: "tcp_cwnd",
        title: "TCP's window",
        unit: "bytes",
        help: "What TCP itself would let be in flight; the smaller window counts",
        value: |row| row.figures.tcp_cwnd.into(),
        key: |row| number(row.figures.tcp_cwnd),
    },
    LiveColumn {
        name: "controller",
        title: "Controller",
        unit: "",
        help: "The controller of the connection: in an experiment, that of its arm",
        value: |row| {
            Some(&*row.open.group.controller).filter(|controller| !controller.is_empty()).into()
        },
        key: |row| Some(word(&row.open.group.controller)),
    },
    LiveColumn {
        name: "driver",
        title: "Driver",
        unit: "",
        help: "Who keeps to the window: the kernel, the gate, or both ends (client-server)",
        value: |row| Some(row.open.group.driver).filter(|driver| !driver.is_empty()).into(),
        key: |row| Some(word(row.open.group.driver)),
    },
    LiveColumn {
        name: "opened",
        title: "Age",
        unit: "s",
        help: "Time since the connection came under control",
        value: |row| row.open.opened_s.into(),
        // The oldest one has the largest age.
        key: |row| Some(-row.open.opened_s),
    },
];

/// A row of the data: the connection's number and the value of each column.
pub(crate) fn row(number: u64, open: &OpenConnection, figures: &ConnectionFigures) -> Value {
    let row = ConnectionRow { number, open, figures };
    let values = COLUMNS.iter().map(|column| (column.value)(&row));
    std::iter::once(number.into()).chain(values).collect()
}

/// Which rows a client sees.
pub(crate) struct View {
    column: &'static LiveColumn,
    descending: bool,
    /// In small letters.
    search: String,
    from: usize,
    rows: usize,
    /// The connection that it looks into.
    pub(crate) flow: Option<u64>,
    /// It has the history up to here, in seconds; `None`: it does not want it.
    pub(crate) since: Option<f64>,
}

impl View {
    /// What a request asks for. What makes no sense is as if it was not there.
    pub(crate) fn of(request: &Request) -> Self {
        let sort = request.value("sort").unwrap_or("rate");
        let column = COLUMNS.iter().find(|column| column.name == sort);
        Self {
            column: column.unwrap_or(&COLUMNS[1]),
            descending: request.value("order") != Some("ascending"),
            search: request.value("search").unwrap_or_default().to_lowercase(),
            from: request.number("from").unwrap_or(0),
            rows: request.number("rows").unwrap_or(DEFAULT_ROWS).min(MAX_ROWS),
            flow: request.number("flow"),
            since: request.number("since"),
        }
    }

    /// How many connections match, and the numbers of those that are seen, in their order.
    pub(crate) fn select(&self, state: &LiveState) -> (usize, Vec<u64>) {
        let last = if self.descending { f64::NEG_INFINITY } else { f64::INFINITY };
        let matching = state.open.iter().filter(|(_, open)| self.matches(open));
        let keyed = |(&number, open): (&u64, &OpenConnection)| {
            let row = ConnectionRow { number, open, figures: &open.figures };
            ((self.column.key)(&row).unwrap_or(last), number)
        };
        let mut keys: Vec<(f64, u64)> = matching.map(keyed).collect();
        let matching = keys.len();
        let order = |a: &(f64, u64), b: &(f64, u64)| {
            let rising = a.0.total_cmp(&b.0);
            if self.descending { rising.reverse() } else { rising }.then(a.1.cmp(&b.1))
        };
        // Only what is seen, and what stands before it, has to be in order.
        let end = self.from.saturating_add(self.rows).min(matching);
        if (1..matching).contains(&end) {
            keys.select_nth_unstable_by(end - 1, order);
        }
        keys.truncate(end);
        keys.sort_unstable_by(order);
        (matching, keys.into_iter().skip(self.from).map(|(_, number)| number).collect())
    }

    fn matches(&self, open: &OpenConnection) -> bool {
        self.search.is_empty()
            || open.name.to_lowercase().contains(&self.search)
            || open.group.controller.contains(&self.search)
            || open.figures.phase.is_some_and(|phase| phase.contains(&self.search))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{LiveAbout, LiveConnections, NewConnection};
    use crate::figures::SharedFigures;
    use proptest::prelude::*;
    use std::time::Duration;

    fn view(query: &str) -> View {
        let head = format!("GET /?{query} HTTP/1.1\r\n\r\n");
        View::of(&crate::request::read_head(head.as_bytes()).unwrap().unwrap())
    }

    fn connections(windows: &[Option<u64>]) -> LiveConnections {
        let connections = LiveConnections::new(LiveAbout::default());
        for (number, &cwnd) in (1..).zip(windows) {
            let source = SharedFigures::default();
            source.update(|figures| figures.cwnd = cwnd);
            let name = format!("127.0.0.1:80 <- Host-{number}");
            let new = NewConnection {
                number,
                name,
                controller: "".into(),
                driver: "",
                source: Box::new(source),
            };
            connections.opened(new);
        }
        connections.lock().sweep_if_older(Duration::ZERO);
        connections
    }

    fn seen(connections: &LiveConnections, query: &str) -> (usize, Vec<u64>) {
        view(query).select(&connections.lock())
    }

    #[test]
    fn rows_are_sorted_searched_and_cut() {
        let connections = connections(&[Some(5), None, Some(9), Some(5), Some(1)]);
        assert_eq!(seen(&connections, "sort=cwnd"), (5, vec![3, 1, 4, 5, 2]));
        assert_eq!(seen(&connections, "sort=cwnd&order=ascending"), (5, vec![5, 1, 4, 3, 2]));
        assert_eq!(seen(&connections, "sort=cwnd&from=1&rows=2"), (5, vec![1, 4]));
        assert_eq!(seen(&connections, "sort=connection&search=HOST-4"), (1, vec![4]));
        assert_eq!(seen(&connections, "search=nobody"), (0, vec![]));
        assert_eq!(seen(&connections, "from=99999999999999999999&rows=0"), (5, vec![]));
        assert_eq!(seen(&connections, "from=18446744073709551615&rows=5"), (5, vec![]));
        assert_eq!(seen(&connections, "sort=nothing&rows=1000000").0, 5);
        assert_eq!(view("rows=1000000").rows, MAX_ROWS);
    }

    #[test]
    fn words_sort_as_words_do() {
        let mut phases = ["slow_start", "avoidance", "recovery", "probe_bw", "probe_rtt", ""];
        phases.sort_by(|a, b| word(a).total_cmp(&word(b)).then(a.cmp(b)));
        assert!(phases.is_sorted(), "{phases:?}");
    }

    proptest! {
        #[test]
        fn a_part_of_the_rows_is_that_part_of_all(
            windows in prop::collection::vec(prop::option::of(0..20_u64), 0..60),
            from in 0..70_usize,
            rows in 0..70_usize,
            order in prop::sample::select(vec!["ascending", "descending"]),
        ) {
            let connections = connections(&windows);
            let all = seen(&connections, &format!("sort=cwnd&rows=500&order={order}")).1;
            let part = format!("sort=cwnd&from={from}&rows={rows}&order={order}");
            let part = seen(&connections, &part).1;
            let expected: Vec<u64> = all.into_iter().skip(from).take(rows).collect();
            prop_assert_eq!(part, expected);
        }
    }
}
