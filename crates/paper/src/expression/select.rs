//! Which places a selector means.

use crate::expression::parse::Selector;
use crate::trace_sets;
use crate::unit::read_quantity;

impl Selector {
    /// Whether it means one place, so that the axis is gone after the selection.
    pub(crate) fn is_single(&self) -> bool {
        let [wanted] = self.wanted.as_slice() else { return false };
        !self.is_excluded && !wanted.contains("..") && trace_sets::members(wanted).is_none()
    }

    /// Whether it means this place.
    pub(crate) fn means(&self, place: &str) -> bool {
        self.wanted.iter().any(|wanted| is_meant(wanted, place)) != self.is_excluded
    }

    /// What stands in the brackets.
    pub(crate) fn text(&self) -> String {
        let not = if self.is_excluded { "!" } else { "" };
        format!("[{}{not}={}]", self.axis, self.wanted.join("|"))
    }
}

fn is_meant(wanted: &str, place: &str) -> bool {
    if wanted == place {
        return true;
    }
    if let Some(members) = trace_sets::members(wanted) {
        return members.contains(&place);
    }
    let Some((at, unit)) = read_quantity(place) else { return false };
    let bound = |text: &str| read_quantity(text).filter(|(_, other)| *other == unit);
    match wanted.split_once("..") {
        Some((from, to)) => {
            bound(from).is_some_and(|(from, _)| from <= at)
                && bound(to).is_some_and(|(to, _)| at < to)
        }
        None => bound(wanted).is_some_and(|(other, _)| other == at),
    }
}
