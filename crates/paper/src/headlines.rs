//! The claims that papers are known for: those of the front page, in its order.

/// Ids of the claims of the front page; each has a `headline`.
pub const HEADLINES: [&str; 10] = [
    "verus-abstract-delay",
    "verus-abstract-sprout",
    "verus-table1",
    "mdi-abstract",
    "mdi-fairness",
    "alcc-abstract",
    "alcc-bloat",
    "alcc-fig12",
    "highway-table1",
    "highway-fig11",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;

    #[test]
    fn every_claim_of_the_front_page_is_there_and_no_other() {
        let library = Library::embedded().unwrap();
        let with: Vec<&str> = library
            .claims()
            .iter()
            .filter(|claim| claim.headline.is_some())
            .map(|claim| &*claim.id)
            .collect();
        for id in HEADLINES {
            assert!(with.contains(&id), "{id} has no claim with a `headline`");
        }
        let others: Vec<_> = with.iter().filter(|id| !HEADLINES.contains(id)).collect();
        assert!(others.is_empty(), "not on the front page: {others:?}");
    }
}
