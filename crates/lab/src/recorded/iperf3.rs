//! The reports of iperf3 (`--json`): each stream of each interval.

use serde::Deserialize;

use super::Recorded;
use super::flow::{RecordedFlow, Sample};

#[derive(Deserialize)]
struct Report {
    intervals: Vec<Interval>,
    end: Option<End>,
}

/// What both sides counted: a receiver's intervals have no retransmissions.
#[derive(Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<EndStream>,
}

#[derive(Deserialize)]
struct EndStream {
    sender: Option<SenderSum>,
}

#[derive(Deserialize)]
struct SenderSum {
    socket: Option<u64>,
    retransmits: Option<f64>,
}

#[derive(Deserialize)]
struct Interval {
    streams: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    socket: Option<u64>,
    start: f64,
    end: f64,
    bytes: f64,
    retransmits: Option<f64>,
    snd_cwnd: Option<f64>,
    /// In microseconds.
    rtt: Option<f64>,
    lost_packets: Option<f64>,
    sender: Option<bool>,
    #[serde(default)]
    omitted: bool,
}

/// Streams that are told apart.
const MAX_STREAMS: usize = 256;

/// Whether a text begins as a report of iperf3.
pub(super) fn is_one(text: &str) -> bool {
    let beginning: String = text.chars().take(65_536).filter(|c| !c.is_whitespace()).collect();
    let is_iperf =
        beginning.contains("\"intervals\":[") || beginning.contains("\"version\":\"iperf");
    beginning.starts_with('{') && is_iperf && !beginning.contains("\"schema\":\"cellpace")
}

pub(super) fn read(text: &str) -> Result<Recorded, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut flows: Vec<(Option<u64>, RecordedFlow)> = Vec::new();
    for (number, interval) in report.intervals.iter().enumerate() {
        for stream in interval.streams.iter().filter(|stream| !stream.omitted) {
            let wrong = |why: String| format!("intervals: entry {}: {why}", number + 1);
            let known = flows.iter().position(|(socket, _)| *socket == stream.socket);
            let place = known.unwrap_or(flows.len());
            if place == MAX_STREAMS {
                return Err(wrong(format!("more than {MAX_STREAMS} streams")));
            }
            if known.is_none() {
                let name = stream.socket.map_or("stream".to_owned(), |it| format!("stream {it}"));
                flows.push((stream.socket, RecordedFlow::new(name)));
            }
            put(&mut flows[place].1, stream).map_err(wrong)?;
        }
    }
    let sums =
        report.end.iter().flat_map(|end| &end.streams).filter_map(|stream| stream.sender.as_ref());
    for sum in sums {
        if let Some((_, flow)) = flows.iter_mut().find(|(socket, _)| *socket == sum.socket) {
            flow.lost = flow.lost.or(sum.retransmits);
        }
    }
    let flows = flows.into_iter().map(|(_, flow)| flow).collect();
    Ok(Recorded { kind: "iperf3", flows, notes: Vec::new() })
}

/// The bytes of an interval came evenly; all else is that of its end.
fn put(flow: &mut RecordedFlow, stream: &Stream) -> Result<(), String> {
    const PARTS: u32 = 20;
    let (start, end) = (stream.start * 1000.0, stream.end * 1000.0);
    if end <= start || stream.bytes < 0.0 {
        return Err("its end is not after its start, or its bytes are below 0".to_owned());
    }
    let is_sender = stream.sender != Some(false);
    let part = stream.bytes / f64::from(PARTS);
    let bytes = if is_sender { Sample::Sent(part) } else { Sample::Received(part) };
    for index in 0..PARTS {
        flow.add(start + (end - start) * f64::from(index) / f64::from(PARTS), bytes)?;
    }
    let last = start + (end - start) * 0.99;
    let lost = stream.retransmits.or(stream.lost_packets).map(Sample::Lost);
    // 0: not known.
    let window = stream.snd_cwnd.filter(|bytes| *bytes > 0.0).map(Sample::Window);
    let rtt = stream.rtt.filter(|micros| *micros > 0.0).map(|micros| Sample::Rtt(micros / 1000.0));
    [lost, window, rtt].into_iter().flatten().try_for_each(|sample| flow.add(last, sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"start":{"version":"iperf 3.9"},"intervals":[
        {"streams":[{"socket":5,"start":0,"end":1,"bytes":1000000,"retransmits":3,"snd_cwnd":60000,"rtt":25000,"sender":true}]},
        {"streams":[{"socket":5,"start":1,"end":2,"bytes":3000000,"retransmits":0,"snd_cwnd":0,"rtt":0,"sender":true}]}]}"#;

    #[test]
    fn streams_have_their_rates_windows_rtts_and_retransmissions() {
        assert!(is_one(REPORT));
        let flow = read(REPORT).unwrap().flows.remove(0);
        let json = serde_json::to_value(&flow).unwrap();
        assert_eq!(
            (flow.name.as_str(), flow.bytes().round(), &json["lost"]),
            ("stream 5", 4e6, &3.0.into())
        );
        let known = |field: &str| {
            json[field]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(serde_json::Value::as_f64)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (known("window"), known("rtt_ms")),
            (vec![60_000.0], vec![25.0]),
            "0 is not known"
        );
    }

    #[test]
    fn what_a_receiver_cannot_count_is_the_senders_or_unknown() {
        let received = REPORT.replace("\"retransmits\":3,", "").replace("\"retransmits\":0,", "");
        let lost = |text: &str| read(text).unwrap().flows[0].lost;
        assert_eq!(lost(&received), None);
        let end = r#""end":{"streams":[{"sender":{"socket":5,"retransmits":659}}]},"intervals""#;
        assert_eq!(lost(&received.replace("\"intervals\"", end)), Some(659.0));
    }

    #[test]
    fn wrong_intervals_are_named() {
        let backwards = REPORT.replace("\"start\":1,\"end\":2", "\"start\":2,\"end\":1");
        assert!(
            read(&backwards).unwrap_err().starts_with("intervals: entry 2: its end is not after")
        );
        let without = REPORT.replace("\"end\":2,", "");
        let error = read(&without).unwrap_err();
        assert!(error.contains("missing field `end` at line 3"), "{error}");
    }
}
