//! The loop of a transfer: datagrams, data, a line each second, the end.

use std::fs::File;
use std::io::ErrorKind;

use cellpace_base::{Span, Time};
use cellpace_udp::{CloseCode, Driver, FlowError, FlowEvent, FlowId, OutgoingStats};

use super::conclusion::{TransferConditions, TransferResult, conclude, label};
use super::data::{DataSource, SinkError};
use super::flow::{FlowData, TransferFlow};
use super::flows::TransferFlows;
use super::record::FlowTotals;
use super::series::BIN;
use crate::{EventFlow, EventLog, FlowMetrics, LabError};

/// Figures are shown this often.
pub(super) const INTERVAL: Span = Span::from_secs(1);

/// After the last flow, others of the same program may still be in their handshake.
const LAST_CALL: Span = Span::from_millis(300);

/// How long a reader of what arrives may wait until what it has room for comes.
const READER_WAIT: Span = Span::from_millis(10);

/// No more flows are taken from a sender, whatever it offers.
const MAX_OFFERED: usize = 1000;

/// What a transfer shows while it goes on, and who stops it.
pub trait TransferView {
    /// Takes lines for people: a flow began, a second passed, a flow ended. Names in them come from
    /// outside.
    fn on_lines(&mut self, lines: &[String]);

    /// Takes what a person should know.
    fn on_warning(&mut self, text: &str);

    /// Takes a line about one connection, for views that show such details.
    fn on_detail(&mut self, line: &str) {
        let _ = line;
    }

    /// Whether to end now.
    fn is_cancelled(&self) -> bool;
}

/// Flows that send or receive over UDP.
pub struct Transfer<'a> {
    /// The sockets and the protocol.
    pub driver: Driver,
    /// The flows that go on.
    pub flows: TransferFlows,
    view: &'a mut dyn TransferView,
    /// Flows that are over, with their numbers, for the document. A receiver that goes on for ever
    /// has no document, and does not remember them.
    over: Vec<(usize, TransferFlow)>,
    /// Where what the controllers decide is written.
    pub events: Option<EventLog<File>>,
    /// Sending ends after this time.
    pub duration: Option<Span>,
    /// What is done with flows that others begin.
    pub welcome: Option<Welcome<'a>>,
    /// Begins another flow from a sender that offers several; given how many there are.
    pub another: Option<Another<'a>>,
    /// Whether the run ends with its flows. Otherwise it goes on until it is interrupted.
    pub ends: bool,
    /// Whether an interrupted flow is to end as if this were all.
    pub cut_at_interrupt: bool,
    next_line: Time,
    next_bin: Time,
    /// A warning was shown that the peer's port has no program.
    was_unreachable: bool,
    idle_since: Time,
    stopping: bool,
    any_failed: bool,
    /// A shortage of memory was reported.
    was_short: bool,
    /// Flows that could not be welcomed, until their other side has been notified.
    turned_away: Vec<FlowId>,
}

/// Makes what a flow that a peer began needs: its name and its data.
pub type Welcome<'a> = Box<dyn FnMut(usize) -> Result<(String, FlowData), SinkError> + 'a>;

/// Begins another flow.
pub type Another<'a> = Box<dyn FnMut(&mut Driver, usize) -> Result<TransferFlow, LabError> + 'a>;

impl<'a> Transfer<'a> {
    /// A transfer without flows.
    pub fn new(driver: Driver, view: &'a mut dyn TransferView) -> Self {
        Self {
            driver,
            view,
            flows: TransferFlows::default(),
            over: Vec::new(),
            events: None,
            duration: None,
            welcome: None,
            another: None,
            ends: true,
            cut_at_interrupt: false,
            next_line: Time::MAX,
            next_bin: Time::MAX,
            was_unreachable: false,
            idle_since: Time::MAX,
            stopping: false,
            any_failed: false,
            was_short: false,
            turned_away: Vec::new(),
        }
    }

    /// Goes on until all is done or it is cancelled.
    ///
    /// # Errors
    /// When the system fails, another flow cannot be begun, or the event log cannot be written.
    /// That a flow failed is part of the result.
    pub fn run(mut self, conditions: TransferConditions) -> Result<TransferResult, LabError> {
        while !self.is_done() {
            self.turn()?;
            if self.view.is_cancelled() && !self.stopping {
                self.stop();
            }
        }
        self.finish(conditions)
    }

    fn is_done(&self) -> bool {
        if self.stopping {
            return self.driver.endpoint.flows() == 0;
        }
        // A listener without a peer yet has no flows either, and goes on waiting.
        let began = self.welcome.is_none() || self.flows.begun() > 0;
        let over = began && self.driver.endpoint.flows() == 0;
        // Only a listener waits: a side that connects knows how many flows it has begun.
        let last_call = if self.welcome.is_some() { LAST_CALL } else { Span::ZERO };
        self.ends && over && self.driver.now() >= self.idle_since.min(self.driver.now()) + last_call
    }

    fn turn(&mut self) -> Result<(), LabError> {
        // Ctrl-C must be seen, even if nothing else happens.
        let mut until = (self.driver.now() + Span::from_millis(200)).min(self.next_line);
        until = until.min(self.next_bin);
        if self.flows.iter().any(|(_, run)| run.waits_for_reader()) {
            until = until.min(self.driver.now() + READER_WAIT);
        }
        if let Some(stop) = self.stop_at() {
            until = until.min(stop);
        }
        // The driver polls one descriptor beside its sockets.
        let waiting = self.flows.iter().find_map(|(number, run)| {
            let FlowData::Source(source) = &run.end else { return None };
            let flow = self.driver.endpoint.flow(run.id).filter(|_| run.is_running())?;
            source.pollable().filter(|_| flow.room() > 0).map(|input| (number, input))
        });
        let readable = self.driver.turn(until, waiting.map(|(_, input)| input));
        let number = waiting.map(|(number, _)| number);
        let readable = readable
            .map_err(|error| LabError::failed(format!("sending and receiving: {error}")))?;
        self.report_shortage();
        self.report_unreachable();
        if readable
            && let Some(run) = number.and_then(|number| self.flows.get_mut(number))
            && let FlowData::Source(source) = &mut run.end
        {
            source.on_readable();
        }
        let now = self.driver.now();
        // Before data is moved: a flow that has just ended gets none.
        while let Some((id, event)) = self.driver.endpoint.poll_event() {
            if let FlowEvent::Connected(offered) = event {
                self.take_offer(usize::from(offered))?;
            }
            self.on_event(now, id, event);
        }
        self.move_data(now);
        self.take_observations(now);
        self.close_bins(now);
        self.end_after_duration(now);
        self.forget_ended(now);
        if now >= self.next_line {
            // After a pause of the machine lines go on from now, rather than all at once.
            self.next_line = (self.next_line + INTERVAL).max(now);
            self.show_interval(now);
        }
        Ok(())
    }

    /// Says once that the system was short of memory; what it could not do was done later.
    fn report_shortage(&mut self) {
        let trouble = self.driver.trouble();
        if trouble.shortages > 0 && !self.was_short {
            let text = format!("the system is short of memory, going on: {}", trouble.last_error);
            self.view.on_warning(&text);
            self.was_short = true;
        }
    }

    /// Says at once what a wait may be for: another program, or an address that is wrong.
    fn report_unreachable(&mut self) {
        // Once: a peer whose port has no program answers every datagram with the same error.
        if self.was_unreachable || self.driver.trouble().unreachable.is_none() {
            return;
        }
        self.was_unreachable = true;
        let waits = self
            .flows
            .iter()
            .find(|(_, run)| run.record.began.is_none() && run.record.ended.is_none());
        if let (Some(why), Some((_, run))) = (unreachable(&self.driver), waits) {
            self.view.on_warning(&format!("{}: {why}; waiting for it", run.record.peer));
        }
    }

    /// Ends a bin of the series of each flow.
    fn close_bins(&mut self, now: Time) {
        // Without an end there is no document, and bins would grow for ever.
        if now < self.next_bin || !self.ends {
            return;
        }
        self.next_bin = (self.next_bin + BIN).max(now);
        let endpoint = &self.driver.endpoint;
        for (_, run) in self.flows.iter_mut().filter(|(_, run)| run.is_running()) {
            if let Some(flow) = endpoint.flow(run.id) {
                run.record.close_bin(now, &FlowTotals::of(flow));
            }
        }
    }

    /// When sending ends, if it does by the clock.
    fn stop_at(&self) -> Option<Time> {
        let duration = self.duration?;
        let sending = self.flows.iter().filter(|(_, run)| run.is_sending());
        let began = sending.filter_map(|(_, run)| run.record.began);
        // Each flow has its own duration from its own beginning; the first to end wakes the loop.
        began.min().map(|began| began + duration)
    }

    fn on_event(&mut self, now: Time, id: FlowId, event: FlowEvent) {
        let number = self.flows.number(id).or_else(|| self.greet(now, id, &event));
        let Some(number) = number else { return };
        let Some(run) = self.flows.get_mut(number) else { return };
        match event {
            FlowEvent::Connected(_) => {
                run.record.begin(now);
                let name = if run.record.name.is_empty() { "of data" } else { &run.record.name };
                let line = format!("flow {} ({name}) is open with {}", number + 1, run.record.peer);
                self.view.on_detail(&line);
                if self.next_line == Time::MAX {
                    self.next_line = now + INTERVAL;
                    self.next_bin = if self.ends { now + BIN } else { Time::MAX };
                }
            }
            FlowEvent::Read => {
                if let Some(flow) = self.driver.endpoint.flow_mut(id) {
                    run.on_read(now, flow);
                }
            }
            FlowEvent::Ended(result) => {
                let result = result.map_err(|error| self_explaining(&error, &self.driver));
                if let Some(flow) = self.driver.endpoint.observe(id) {
                    match result {
                        Ok(()) => run.stop(now, flow),
                        Err(reason) => run.fail(now, flow, reason),
                    }
                }
            }
            _ => {}
        }
    }

    /// The number of flows of a sender that waits.
    fn take_offer(&mut self, offered: usize) -> Result<(), LabError> {
        let Some(another) = &mut self.another else { return Ok(()) };
        // The number comes from the peer: without a bound it could have us open any number.
        while self.flows.begun() < offered.min(MAX_OFFERED) {
            self.flows.push(another(&mut self.driver, self.flows.begun())?);
        }
        Ok(())
    }

    /// A peer began a flow. Returns its number, if it is taken.
    fn greet(&mut self, now: Time, id: FlowId, event: &FlowEvent) -> Option<usize> {
        let number = self.flows.begun();
        let flow = self.driver.endpoint.flow_mut(id)?;
        if !matches!(event, FlowEvent::Connected(_)) {
            // It never got so far.
            self.driver.endpoint.forget(id);
            return None;
        }
        let made = self.welcome.as_mut().map(|welcome| welcome(number));
        let (name, end) = match made {
            Some(Ok(made)) => made,
            Some(Err(SinkError { text, is_busy })) => {
                let code = if is_busy { CloseCode::Busy } else { CloseCode::Storage };
                flow.close(now, code, &text);
                self.view.on_warning(&text);
                self.any_failed = true;
                // Kept until the peer has read why, although it is no flow of ours.
                self.turned_away.push(id);
                return None;
            }
            None => return None,
        };
        let peer = self.driver.endpoint.peer(id).map(shown_address).unwrap_or_default();
        self.view.on_lines(&[format!("{}flow from {peer}", self.label(number, &name))]);
        self.flows.push(TransferFlow::new(id, name, peer, end));
        Some(number)
    }

    fn move_data(&mut self, now: Time) {
        for (_, run) in self.flows.iter_mut().filter(|(_, run)| run.is_running()) {
            let Some(flow) = self.driver.endpoint.flow(run.id) else { continue };
            if !run.has_work(flow) {
                continue;
            }
            if let Some(flow) = self.driver.endpoint.flow_mut(run.id) {
                run.work(now, flow);
            }
        }
    }

    /// RTT samples and the controllers' decisions.
    fn take_observations(&mut self, now: Time) {
        for (number, run) in self.flows.iter_mut().filter(|(_, run)| run.is_running()) {
            let Some(flow) = self.driver.endpoint.observe(run.id) else { continue };
            run.observe(flow);
            let Some(log) = &mut self.events else { continue };
            let source = EventFlow { run: None, flow: number as u64, cc: &run.record.name };
            while let Some((at, event)) = flow.poll_controller_event() {
                log.event(at, source, &event);
            }
            if now >= self.next_line
                && let Some(stats) = flow.outgoing()
            {
                let OutgoingStats { cwnd, in_flight, srtt, min_rtt, .. } = stats;
                let mut values = Vec::new();
                flow.inspect(&mut |name, value| values.push((name, value)));
                let metrics = FlowMetrics { cwnd, in_flight, srtt, min_rtt, values, tcp: None };
                log.metrics(now, source, &metrics);
            }
        }
    }

    fn end_after_duration(&mut self, now: Time) {
        let Some(duration) = self.duration else { return };
        for (_, run) in self.flows.iter_mut() {
            let over = run.record.began.is_some_and(|began| now >= began + duration);
            if !over || !run.is_sending() {
                continue;
            }
            if let Some(flow) = self.driver.endpoint.flow_mut(run.id) {
                run.cut(flow);
            }
        }
    }

    fn forget_ended(&mut self, now: Time) {
        let endpoint = &mut self.driver.endpoint;
        self.turned_away.retain(|id| {
            let is_over = endpoint.flow(*id).is_none_or(cellpace_udp::UdpFlow::is_over);
            if is_over {
                endpoint.forget(*id);
            }
            !is_over
        });
        let over = self.flows.iter().filter(|(_, run)| {
            let flow = self.driver.endpoint.flow(run.id);
            run.record.ended.is_some() && flow.is_none_or(cellpace_udp::UdpFlow::is_over)
        });
        let over: Vec<usize> = over.map(|(number, _)| number).collect();
        for number in over {
            let Some(run) = self.flows.remove(number) else { continue };
            self.driver.endpoint.forget(run.id);
            self.any_failed |= run.record.error.is_some();
            // From here on the last call counts, if no other flow comes.
            self.idle_since = now;
            self.show_end(number, &run);
            if self.ends {
                self.over.push((number, run));
            }
        }
    }

    /// The figures of a flow that is over. Where the run ends with its flows, its end says why they
    /// failed.
    fn show_end(&mut self, number: usize, run: &TransferFlow) {
        let Some(mut line) = run.record.summary() else { return };
        if let Some(error) = run.record.error.as_ref().filter(|_| !self.ends) {
            line += &format!("; failed: {error}");
        }
        self.view.on_lines(&[self.label(number, &run.record.name) + &line]);
    }

    fn show_interval(&mut self, now: Time) {
        let mut lines = Vec::new();
        let (mut running, mut sum) = (0, 0.0);
        let endpoint = &self.driver.endpoint;
        for (number, run) in self.flows.iter_mut().filter(|(_, run)| run.is_running()) {
            let Some(flow) = endpoint.flow(run.id) else { continue };
            run.record.close_interval(now, FlowTotals::of(flow));
            running += 1;
            sum += run.record.intervals.last().map_or(0.0, |interval| interval.throughput_mbps);
            lines.push((number, run.record.name.clone(), run.record.line()));
        }
        let lines = lines.iter().map(|(number, name, line)| self.label(*number, name) + line);
        let mut lines: Vec<String> = lines.collect();
        if running > 1 {
            lines.push(format!("[sum] {running} flows: {sum:.2} Mbit/s"));
        }
        self.view.on_lines(&lines);
    }

    fn label(&self, number: usize, name: &str) -> String {
        label(number, name, self.flows.begun() > 1 || self.welcome.is_some())
    }

    /// Ctrl-C: what has been sent is all, or the flows end as they are.
    fn stop(&mut self) {
        self.stopping = true;
        // First: a peer that comes while flows end would keep the run going.
        self.driver.endpoint.stop_listening();
        let now = self.driver.now();
        for (_, run) in self.flows.iter_mut() {
            let Some(flow) = self.driver.endpoint.flow_mut(run.id) else { continue };
            if run.is_running() && self.cut_at_interrupt {
                run.cut(flow);
            } else {
                flow.close(now, CloseCode::Stopped, "it was interrupted");
                // Its file stays without a name: what has come is not all.
                run.fail(now, flow, "interrupted".into());
            }
        }
    }

    fn finish(mut self, conditions: TransferConditions) -> Result<TransferResult, LabError> {
        let trouble = self.driver.trouble().clone();
        if trouble.refused > 0 {
            let hint = if trouble.too_large { "; try a smaller --mtu" } else { "" };
            let (count, said) = (trouble.refused, &trouble.last_error);
            let text = format!("the system refused {count} datagrams: {said}{hint}");
            self.view.on_warning(&text);
        }
        if let Some(log) = self.events.take() {
            log.finish()?;
        }
        // None goes on but for those whose handshake was cut short.
        let left: Vec<usize> = self.flows.iter().map(|(number, _)| number).collect();
        self.over.extend(left.into_iter().filter_map(|n| Some((n, self.flows.remove(n)?))));
        self.over.sort_by_key(|(number, _)| *number);
        let flows: Vec<_> = self.over.iter().map(|(number, run)| (*number, &run.record)).collect();
        Ok(conclude(conditions, None, trouble.refused, &flows, self.any_failed))
    }
}

/// What silence means where the system has refused to send, or the network reports something.
fn self_explaining(error: &FlowError, driver: &Driver) -> String {
    let trouble = driver.trouble();
    match (error, unreachable(driver)) {
        (FlowError::NoAnswer(after), Some(why)) => format!("no answer within {after}: {why}"),
        (FlowError::Silent(_), Some(why)) => format!("{error}: {why}"),
        (FlowError::NoAnswer(_) | FlowError::Silent(_), None) if trouble.refused > 0 => {
            format!("{error} (the system reports: {})", trouble.last_error)
        }
        _ => error.to_string(),
    }
}

/// What the network reports of the peer.
fn unreachable(driver: &Driver) -> Option<String> {
    driver.trouble().unreachable.map(|kind| match kind {
        ErrorKind::ConnectionRefused => "no program has that UDP port there".to_owned(),
        kind => format!("the network reports: {kind}"),
    })
}

/// Returns an address as people write it.
pub fn shown_address(address: std::net::SocketAddr) -> String {
    // A socket for both families has IPv4 peers as ::ffff:a.b.c.d, which is not what was typed.
    std::net::SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

/// Returns what a flow of made-up bytes sends; `bytes` in all, or as long as it lasts.
pub fn made_up(unreliable: bool, bytes: Option<u64>) -> FlowData {
    FlowData::Source(if unreliable { DataSource::None } else { DataSource::made(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::DataSink;
    use cellpace_udp::{Endpoint, EndpointConfig, FlowRequest, Listen, Offer, UdpFlow};
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Silent;

    impl TransferView for Silent {
        fn on_lines(&mut self, _: &[String]) {}

        fn on_warning(&mut self, text: &str) {
            panic!("{text}");
        }

        fn is_cancelled(&self) -> bool {
            false
        }
    }

    fn driver() -> Driver {
        let (secret, new_id) = Driver::secrets().unwrap();
        let mut driver = Driver::new(Endpoint::new(EndpointConfig::default(), secret, new_id));
        driver.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        driver
    }

    /// Opens a flow that stays, and then `count` others that send a byte each and end.
    fn send(to: SocketAddr, count: usize, stop: &AtomicBool) {
        let mut driver = driver();
        let connect = FlowRequest { controller: Some("cubic".parse().unwrap()), unreliable: false };
        let until = driver.now() + Span::from_secs(20);
        let mut left = count;
        driver.endpoint.connect(driver.now(), to, 0, &connect);
        while !stop.load(Ordering::Relaxed) && driver.now() < until {
            driver.turn(driver.now() + Span::from_millis(5), None).unwrap();
            let mut next = false;
            while let Some((id, event)) = driver.endpoint.poll_event() {
                match event {
                    FlowEvent::Connected(_) if left == count => next = true,
                    FlowEvent::Connected(_) => {
                        let flow = driver.endpoint.flow_mut(id).unwrap();
                        assert_eq!(flow.write(&[7]), 1);
                        flow.finish();
                    }
                    FlowEvent::Ended(ended) => {
                        ended.unwrap();
                        next = true;
                    }
                    _ => {}
                }
            }
            if next && left > 0 {
                left -= 1;
                driver.endpoint.connect(driver.now(), to, 0, &connect);
            }
        }
    }

    #[test]
    fn a_receiver_that_goes_on_keeps_only_the_flows_that_go_on() {
        const COUNT: usize = 20;
        let mut view = Silent;
        let mut session = Transfer::new(driver(), &mut view);
        let to = session.driver.local_address(0).unwrap();
        session.driver.endpoint.listen(Listen {
            most_flows: 100,
            max_per_client: None,
            offer: Offer::Receive,
        });
        session.ends = false;
        session.welcome =
            Some(Box::new(|_| Ok((String::new(), FlowData::Sink(DataSink::Nowhere)))));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| send(to, COUNT, &stop));
            let until = session.driver.now() + Span::from_secs(20);
            let all_began = |session: &Transfer<'_>| session.flows.begun() == COUNT + 1;
            let live = |session: &Transfer<'_>| session.flows.iter().count();
            while !(all_began(&session) && live(&session) == 1) && session.driver.now() < until {
                session.turn().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            sender.join().unwrap();
            assert!(all_began(&session), "{} began", session.flows.begun());
            assert_eq!((live(&session), session.over.len()), (1, 0), "the first one goes on");
            let (number, first) = session.flows.iter().next().unwrap();
            let flow = session.driver.endpoint.flow(first.id);
            assert!(number == 0 && flow.is_some_and(|flow: &UdpFlow| !flow.is_over()));
            assert_eq!(session.driver.endpoint.flows(), 1);
        });
    }
}
