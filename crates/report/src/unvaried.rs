//! Repetitions that say nothing: all seeds gave the same figures.

use crate::{Comparison, Run};

/// Names that a sentence has at most.
const MAX_NAMES: usize = 3;

impl Comparison {
    /// Returns a sentence about controllers that were run with several seeds and had the same figures
    /// with all of them; `None` where there are none.
    pub fn unvaried(&self) -> Option<String> {
        let same = |(cc, trace): &(&str, &str)| {
            let mut runs = self.runs.iter().filter(|run| run.cc == *cc && run.trace == *trace);
            let first = runs.next();
            first.is_some_and(|first| runs.all(|run| is_same(first, run)))
        };
        let repeated = self.repeated.iter().map(|of| (of.cc.as_str(), of.trace.as_str()));
        let names: Vec<_> = repeated.filter(same).collect();
        let shown = names.iter().take(MAX_NAMES).map(|(cc, trace)| format!("{cc} on {trace}"));
        let mut shown = shown.collect::<Vec<_>>().join(", ");
        if names.len() > MAX_NAMES {
            shown = format!("{shown} and {} more", names.len() - MAX_NAMES);
        }
        (!names.is_empty()).then(|| {
            format!(
                "{shown}: all seeds gave the same figures, since nothing in these runs is random; \
                 the intervals of 0 say nothing about chance"
            )
        })
    }
}

fn is_same(one: &Run, other: &Run) -> bool {
    one.figures == other.figures && one.transfers == other.transfers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    /// Runs of these controllers with three seeds each; those called `bbr...` vary.
    fn comparison(ccs: &[&str]) -> Comparison {
        let run = example::comparison().runs.remove(0);
        let runs = ccs.iter().flat_map(|cc| {
            (1..4).map(|seed| {
                let mut run = Run { cc: (*cc).to_owned(), seed, ..run.clone() };
                if cc.starts_with("bbr") {
                    run.figures.lost += seed;
                }
                run
            })
        });
        Comparison::of(runs.collect())
    }

    #[test]
    fn what_does_not_vary_is_named() {
        assert_eq!(comparison(&["bbr"]).unvaried(), None);
        let sentence = comparison(&["bbr", "cubic"]).unvaried().unwrap();
        assert!(sentence.starts_with("cubic on "), "{sentence}");
        assert!(!sentence.contains("bbr"), "{sentence}");
        let many = comparison(&["a", "b", "c", "d", "bbr3", "e"]).unvaried().unwrap();
        assert!(many.contains(" and 2 more: all seeds gave the same figures"), "{many}");
    }

    #[test]
    fn one_seed_repeats_nothing() {
        let mut once = comparison(&["cubic"]);
        once.runs.truncate(1);
        assert_eq!(Comparison::of(once.runs).unvaried(), None);
    }
}
