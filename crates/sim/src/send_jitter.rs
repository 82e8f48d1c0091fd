//! Which senders jitter, and by how much: those whose packets meet in one queue, by its mean rate.

use cellpace_base::Span;
use cellpace_path::TraceSpec;

use crate::{CellSpec, Scenario};

/// The longest random delay of each flow's packets in front of `links` in series, by the slowest of
/// them. Empty where no flow has one: there is only one flow, or no link.
pub(crate) fn longest_delays<'a>(
    scenario: &Scenario,
    links: impl Iterator<Item = &'a TraceSpec>,
) -> Vec<Span> {
    if scenario.flows.len() < 2 || scenario.send_jitter.is_none() {
        return Vec::new();
    }
    let of_link = |link: &TraceSpec| scenario.send_jitter.longest(link.mean_rate(scenario.seed));
    // By the slowest link, since that is the queue in which packets meet.
    let longest = links.map(of_link).max().unwrap_or(Span::ZERO);
    vec![longest; scenario.flows.len()]
}

/// The same in a cell, whose users have a queue each: only flows of the same user meet.
pub(crate) fn longest_delays_in_cell(scenario: &Scenario, cell: &CellSpec) -> Vec<Span> {
    let user_of = |name: &Option<String>| cell.user(name.as_deref()?);
    let users: Vec<_> = scenario.flows.iter().map(|flow| user_of(&flow.user)).collect();
    let mut longest = vec![Span::ZERO; cell.users.len()];
    for (index, user) in cell.users.iter().enumerate() {
        let flows = users.iter().filter(|of_flow| **of_flow == Some(index)).count();
        if flows >= 2 && !scenario.send_jitter.is_none() {
            let trace = user.trace.as_ref().unwrap_or(scenario.trace());
            longest[index] = scenario.send_jitter.longest(trace.mean_rate(scenario.seed));
        }
    }
    users.iter().map(|user| user.map_or(Span::ZERO, |user| longest[user])).collect()
}
