//! The data of the page: all of it once, and then what changes.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connections::{LiveConnections, LiveState, SWEEP};
use crate::figures::{ConnectionInside, WatchedConnection};
use crate::request::Request;
use crate::summary::round;
use crate::view::{COLUMNS, View, row};

/// The schema of the data.
pub const SCHEMA: &str = "cellpace.live/1";

/// Time after which a client without news gets a sign of life.
const PING: Duration = Duration::from_secs(15);

/// All of it: the answer to `/api/state`.
pub(crate) fn state(connections: &LiveConnections) -> Value {
    let summary = connections.summary().to_json();
    let state = connections.lock();
    let rows: Vec<Value> =
        state.open.iter().map(|(&number, open)| row(number, open, &open.figures)).collect();
    let mut all = about(connections);
    all["summary"] = summary;
    all["rows"] = rows.into();
    all
}

/// What stays the same.
fn about(connections: &LiveConnections) -> Value {
    let about = connections.about();
    let column = |column: &crate::view::LiveColumn| {
        json!({
            "name": column.name, "title": column.title, "unit": column.unit, "help": column.help,
        })
    };
    json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "command": about.command,
        "subject": about.subject,
        "command_line": about.command_line,
        "t": connections.seconds(),
        "columns": COLUMNS.iter().map(column).collect::<Vec<_>>(),
    })
}

/// What one client has been sent. Its size is bounded by the rows that the client sees.
pub(crate) struct LiveStream {
    connections: LiveConnections,
    view: View,
    has_begun: bool,
    /// The next notice's number.
    next_notice: u64,
    /// Reading of all figures by which the rows are in order.
    sweep: u64,
    order: Vec<u64>,
    /// Rows as they were sent.
    rows: HashMap<u64, String>,
    inside: Option<Box<dyn WatchedConnection>>,
    sent_at: Instant,
}

impl LiveStream {
    /// A stream of what a request asks for.
    pub(crate) fn new(connections: LiveConnections, request: &Request) -> Self {
        connections.viewers().fetch_add(1, Ordering::Relaxed);
        let view = View::of(request);
        let now = connections.lock().noticed();
        Self {
            inside: view.flow.and_then(|flow| connections.watch(flow)),
            connections,
            view,
            has_begun: false,
            // Ignore a Last-Event-ID from an earlier run.
            next_notice: request.last_event.filter(|last| *last <= now).unwrap_or(now),
            sweep: 0,
            order: Vec::new(),
            rows: HashMap::new(),
            sent_at: Instant::now(),
        }
    }

    /// Appends what is new, and returns whether it was the last.
    pub(crate) fn write(&mut self, out: &mut String) -> bool {
        let before = out.len();
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push_str("retry: 1000\n");
            self.event(out, "hello", &about(&self.connections).to_string());
            if let Some(since) = self.view.since {
                let moments = self.connections.history_since(since);
                self.event(out, "history", &json!({ "moments": moments }).to_string());
            }
        }
        let connections = self.connections.clone();
        let mut state = connections.lock();
        if !state.has_ended {
            state.sweep_if_older(SWEEP);
        }
        self.write_notices(&state, out);
        self.write_rows(&state, out);
        let (has_ended, summary) = (state.has_ended, state.summary.to_json());
        drop(state);
        self.write_inside(out);
        if has_ended {
            let end = json!({ "t": connections.seconds(), "summary": summary });
            self.event(out, "end", &end.to_string());
        }
        if out.len() > before {
            self.sent_at = Instant::now();
        } else if self.sent_at.elapsed() >= PING {
            out.push_str(": ping\n\n");
            self.sent_at = Instant::now();
        }
        has_ended
    }

    /// JSON has no line feeds of its own, so one line of data holds it.
    fn event(&self, out: &mut String, name: &str, data: &str) {
        let id = self.next_notice;
        // Writing to a String cannot fail.
        let _ = write!(out, "id: {id}\nevent: {name}\ndata: {data}\n\n");
    }

    fn write_notices(&mut self, state: &LiveState, out: &mut String) {
        let (missed, notices) = state.notices_since(self.next_notice);
        self.next_notice += missed;
        if missed > 0 {
            self.event(out, "missed", &json!({ "events": missed }).to_string());
        }
        for notice in notices {
            self.next_notice += 1;
            self.event(out, notice.name, &notice.data);
        }
    }

    /// The rows that changed, and with each reading of all figures their order and the sums.
    fn write_rows(&mut self, state: &LiveState, out: &mut String) {
        let mut data = json!({ "t": self.connections.seconds() });
        if state.sweeps != self.sweep {
            self.sweep = state.sweeps;
            let (matching, order) = self.view.select(state);
            data["summary"] = state.summary.to_json();
            data["matching"] = matching.into();
            self.rows.retain(|number, _| order.contains(number));
            if order != self.order {
                data["order"] = order.clone().into();
                self.order = order;
            }
        }
        let rows = self.changed_rows(state);
        if rows.is_empty() && data.as_object().is_some_and(|data| data.len() == 1) {
            return;
        }
        let mut text = data.to_string();
        text.truncate(text.len() - 1);
        // Writing to a String cannot fail.
        let _ = write!(text, ",\"rows\":[{}]}}", rows.join(","));
        self.event(out, "flows", &text);
    }

    fn changed_rows(&mut self, state: &LiveState) -> Vec<String> {
        let mut changed = Vec::new();
        for &number in &self.order {
            let Some(open) = state.open.get(&number) else { continue };
            let row = row(number, open, &open.source.figures()).to_string();
            if self.rows.get(&number) != Some(&row) {
                changed.push(row.clone());
                self.rows.insert(number, row);
            }
        }
        changed
    }

    /// What the client sees of the connection that it looks into.
    fn write_inside(&mut self, out: &mut String) {
        let Some(number) = self.view.flow else { return };
        let t = self.connections.seconds();
        let row = {
            let state = self.connections.lock();
            state.open.get(&number).map(|open| row(number, open, &open.source.figures()))
        };
        let Some(row) = row else {
            self.view.flow = None;
            self.inside = None;
            return self.event(out, "flow", &json!({ "id": number, "t": t }).to_string());
        };
        let inside = self.inside.as_mut().map(|watched| watched.look()).unwrap_or_default();
        let data = inside_to_json(&inside, number, t, &row);
        self.event(out, "flow", &data.to_string());
    }
}

fn inside_to_json(inside: &ConnectionInside, number: u64, t: f64, row: &Value) -> Value {
    let values = inside.values.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    let events = inside.events.iter().map(|(ago, name, data)| json!([round(t - ago), name, data]));
    let points = |points: &[(f64, f64)]| -> Value {
        points.iter().map(|(x, y)| json!([round(*x), round(*y)])).collect()
    };
    let mut data = json!({
        "id": number,
        "t": t,
        "row": row,
        "values": values.collect::<serde_json::Map<_, _>>(),
        "events": events.collect::<Vec<_>>(),
    });
    if let Some(profile) = &inside.profile {
        data["profile"] =
            json!({ "points": points(&profile.points), "curve": points(&profile.curve) });
    }
    data
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        self.connections.viewers().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{LiveAbout, NewConnection};
    use crate::figures::{ConnectionFigures, SharedFigures};

    fn connections() -> LiveConnections {
        LiveConnections::new(LiveAbout { command: "run", ..LiveAbout::default() })
    }

    fn open(connections: &LiveConnections, number: u64) -> SharedFigures {
        let (figures, driver) = (SharedFigures::default(), "gate");
        let (name, source) = (format!("a {number}"), Box::new(figures.clone()));
        connections.opened(NewConnection {
            number,
            name,
            controller: "copa".into(),
            driver,
            source,
        });
        figures
    }

    fn stream(connections: &LiveConnections, query: &str) -> LiveStream {
        let head = format!("GET /api/events?{query} HTTP/1.1\r\n\r\n");
        let request = crate::request::read_head(head.as_bytes()).unwrap().unwrap();
        LiveStream::new(connections.clone(), &request)
    }

    /// Names and data of the events that are new.
    fn read(stream: &mut LiveStream) -> Vec<(String, Value)> {
        let mut text = String::new();
        stream.write(&mut text);
        let events = text.split("\n\n").filter(|event| event.contains("event: "));
        let field = |event: &str, name: &str| {
            let line = event.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().to_owned()
        };
        let read = |event: &str| {
            (field(event, "event: "), serde_json::from_str(&field(event, "data: ")).unwrap())
        };
        events.map(read).collect()
    }

    #[test]
    fn after_the_first_event_only_what_changed_is_sent() {
        let connections = connections();
        let figures = [open(&connections, 1), open(&connections, 2)];
        let mut stream = stream(&connections, "sort=connection&order=ascending");
        let first = read(&mut stream);
        assert_eq!(first[0].0, "hello");
        assert_eq!(first[0].1["columns"].as_array().unwrap().len(), COLUMNS.len());
        assert_eq!((first[1].0.as_str(), &first[1].1["order"]), ("flows", &json!([1, 2])));
        assert_eq!(first[1].1["rows"].as_array().unwrap().len(), 2);
        assert_eq!(first[1].1["rows"][0].as_array().unwrap().len(), 1 + COLUMNS.len());
        assert_eq!(read(&mut stream), [], "nothing changed");
        figures[1].update(|figures| figures.lost = 4);
        let changed = read(&mut stream);
        assert_eq!(changed.len(), 1);
        let rows = changed[0].1["rows"].as_array().unwrap();
        let lost = 1 + COLUMNS.iter().position(|column| column.name == "lost").unwrap();
        assert_eq!((rows.len(), &rows[0][0], &rows[0][lost]), (1, &json!(2), &json!(4)));
    }

    #[test]
    fn openings_and_ends_come_once_and_in_order_and_then_the_end() {
        let connections = connections();
        let mut stream = stream(&connections, "");
        read(&mut stream);
        open(&connections, 1);
        let last = ConnectionFigures { sent_bytes: 10, delivered_bytes: 9, ..Default::default() };
        connections.closed(1, last, "finished");
        let events = read(&mut stream);
        let names: Vec<&str> = events.iter().map(|event| event.0.as_str()).collect();
        assert_eq!(names, ["opened", "closed"]);
        assert_eq!(events[1].1["delivered_bytes"], 9);
        connections.end();
        let events = read(&mut stream);
        let (name, end) = events.last().unwrap();
        assert_eq!((name.as_str(), &end["summary"]["delivered_bytes"]), ("end", &json!(9)));
        assert_eq!(end["summary"]["open"], 0);
    }

    #[test]
    fn a_client_that_comes_back_gets_what_happened_meanwhile() {
        let connections = connections();
        let _other = stream(&connections, "");
        open(&connections, 1);
        open(&connections, 2);
        let again = |last: u64| {
            let request = Request { last_event: Some(last), ..Request::default() };
            let mut stream = LiveStream::new(connections.clone(), &request);
            let opened = read(&mut stream).into_iter().filter(|event| event.0 == "opened");
            opened.map(|(_, data)| data["id"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(again(1), [2]);
        assert_eq!(again(0), [1, 2]);
        assert_eq!(again(2), [] as [u64; 0]);
        assert_eq!(again(77), [] as [u64; 0], "of a run before");
    }

    #[test]
    fn figures_are_read_only_while_somebody_looks() {
        let connections = connections();
        open(&connections, 1);
        assert_eq!((connections.has_viewers(), connections.readings()), (false, 0));
        let mut one = stream(&connections, "");
        read(&mut one);
        assert_eq!((connections.has_viewers(), connections.readings()), (true, 1));
        drop(one);
        assert!(!connections.has_viewers());
    }

    #[test]
    fn who_begins_to_look_gets_the_history_from_where_it_was() {
        let connections = connections();
        connections.read_all();
        assert!(!read(&mut stream(&connections, "")).iter().any(|event| event.0 == "history"));
        let events = read(&mut stream(&connections, "since=-1"));
        let names: Vec<&str> = events.iter().map(|event| event.0.as_str()).collect();
        assert_eq!(names, ["hello", "history", "flows"]);
        let moments = events[1].1["moments"].as_array().unwrap();
        assert_eq!((moments.len(), &moments[0][1]["in_flight_bytes"]), (1, &json!(0)));
        let events = read(&mut stream(&connections, "since=99"));
        assert_eq!(events[1].1["moments"], json!([]));
    }

    #[test]
    fn who_looks_into_a_connection_that_has_ended_learns_that() {
        let connections = connections();
        let mut stream = stream(&connections, "flow=7");
        let events = read(&mut stream);
        let (name, data) = events.last().unwrap();
        assert_eq!((name.as_str(), &data["row"]), ("flow", &Value::Null));
        assert!(!read(&mut stream).iter().any(|event| event.0 == "flow"), "once is enough");
    }

    #[test]
    fn the_state_has_all_rows() {
        let connections = connections();
        (1..=700).for_each(|number| drop(open(&connections, number)));
        let state = state(&connections);
        assert_eq!(state["schema"], SCHEMA);
        assert_eq!(state["rows"].as_array().unwrap().len(), 700);
        assert_eq!(state["summary"]["open"], 700);
    }
}
