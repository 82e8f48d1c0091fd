//! Results of one kind side by side: one section with the tables and lines of all, each named.

use crate::section::{Line, PageTable, Section};

/// More different texts than this are not all shown.
const MAX_TEXTS: usize = 4;

/// Results of one kind as one: tables and charts with all of them, each named.
pub(crate) fn side_by_side(sections: Vec<(String, Section)>) -> Section {
    let results = distinct(sections.iter().map(|(name, _)| name.clone()));
    let titles = distinct(sections.iter().map(|(_, section)| section.title.clone()));
    let sentences: Vec<String> = sections.iter().filter_map(named_sentence).collect();
    let facts = listed_facts(sections.iter().map(|(_, section)| section.facts.clone()));
    let count = sections.len();
    let controllers = controllers(&sections, results.len());
    let mut sections = sections.into_iter();
    let Some((first_name, first)) = sections.next() else { return Section::default() };
    if count == 1 {
        return first;
    }
    let place = |name: &str| results.iter().position(|known| known == name).unwrap_or(0);
    let one_each = controllers.is_some().then_some(count);
    let mut all = named(&first_name, place(&first_name), one_each, first);
    for (name, section) in sections {
        all.add(named(&name, place(&name), one_each, section));
    }
    // Without one of its own each line has the look of its place.
    all.controllers = controllers.unwrap_or_default();
    all.title = title(&titles);
    // Tables tell more about many.
    all.sentence = if count > MAX_TEXTS { String::new() } else { sentences.join(" ") };
    Section { facts, results, ..all }
}

/// The controller of each result, where each is of one and stands once.
fn controllers(sections: &[(String, Section)], results: usize) -> Option<Vec<String>> {
    let only = |(_, section): &(String, Section)| {
        let mut names = distinct(section.controllers.iter().cloned());
        names.pop().filter(|name| names.is_empty() && !name.is_empty())
    };
    sections.iter().map(only).collect::<Option<_>>().filter(|_| results == sections.len())
}

/// Each text once.
pub(crate) fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for text in texts {
        if !known.contains(&text) {
            known.push(text);
        }
    }
    known
}

/// What came out, and of which result.
fn named_sentence((name, section): &(String, Section)) -> Option<String> {
    let mut letters = section.sentence.chars();
    let first = letters.next()?;
    let rest = letters.as_str();
    // Not of what is all in capitals.
    let is_word = rest.starts_with(char::is_lowercase);
    let first = if is_word { first.to_lowercase().to_string() } else { first.to_string() };
    Some(format!("{name}: {first}{rest}"))
}

/// Titles as one: the words that are different in them stand between those that all have.
fn title(titles: &[String]) -> String {
    let [first, others @ ..] = titles else { return String::new() };
    if others.is_empty() {
        return first.clone();
    }
    let words: Vec<Vec<&str>> = titles.iter().map(|title| title.split(' ').collect()).collect();
    let shortest = words.iter().map(Vec::len).min().unwrap_or(0);
    let same = |at: &dyn Fn(&Vec<&str>) -> usize| {
        words.iter().all(|each| each[at(each)] == words[0][at(&words[0])])
    };
    let is_list = |word: &str| word.ends_with(',');
    let mut begin = (0..shortest).take_while(|&at| same(&|_| at)).count();
    // A list stays whole.
    while begin > 0 && is_list(words[0][begin - 1]) {
        begin -= 1;
    }
    let most = shortest - begin;
    let mut end = (1..=most).take_while(|&back| same(&|each| each.len() - back)).count();
    while end > 0
        && words.iter().any(|each| each.len() > end && is_list(each[each.len() - end - 1]))
    {
        end -= 1;
    }
    // Each has something of its own.
    while begin > 0 && words.iter().any(|each| each.len() == begin + end) {
        begin -= 1;
    }
    let middles = words.iter().map(|each| each[begin..each.len() - end].join(" "));
    // A colon that all have stands once, at the end.
    let mut middles: Vec<String> = middles.collect();
    let colon =
        if end > 0 && middles.iter().all(|middle| middle.ends_with(':')) { ":" } else { "" };
    middles.iter_mut().for_each(|middle| middle.truncate(middle.len() - colon.len()));
    let tail = &words[0][words[0].len() - end..];
    let middle = listed(&middles) + colon;
    let head = words[0][..begin].iter().copied();
    let parts = head.chain([middle.as_str()]).chain(tail.iter().copied());
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// One after the other, the first few of many.
fn listed(texts: &[String]) -> String {
    if texts.len() <= MAX_TEXTS {
        let has_lists = texts.iter().any(|text| text.contains(", "));
        return texts.join(if has_lists { "; then " } else { ", then " });
    }
    let (shown, rest) = texts.split_at(MAX_TEXTS - 1);
    format!("{} and {} more", shown.join(", "), rest.len())
}

/// The conditions of all: each name once, with its different values.
pub(crate) fn listed_facts(
    facts: impl Iterator<Item = Vec<(String, String)>>,
) -> Vec<(String, String)> {
    let all: Vec<(String, String)> = facts.flatten().collect();
    let values = |wanted: &str| {
        let own = all.iter().filter(|(name, _)| name == wanted);
        listed(&distinct(own.map(|(_, value)| value.clone())))
    };
    let names = distinct(all.iter().map(|(name, _)| name.clone()));
    names.into_iter().map(|name| (name.clone(), values(&name))).collect()
}

/// A section whose rows and lines carry the result's name. Of `one_each` results each is of one controller, which all
/// of its flows look like.
fn named(name: &str, place: usize, one_each: Option<usize>, mut section: Section) -> Section {
    for table in &mut section.tables {
        table.header.insert(0, "result".to_owned());
        table.rows.iter_mut().for_each(|row| row.insert(0, name.to_owned()));
    }
    for chart in &mut section.charts {
        let is_flow = |line: &Line| line.name.starts_with("flow ");
        let are_alike = !chart.bands.is_empty() || chart.lines.iter().all(is_flow);
        for (number, line) in chart.lines.iter_mut().enumerate() {
            line.name = format!("{name}: {}", line.name);
            line.result = place;
            let look = |results| if are_alike { place } else { place + number * results };
            line.look = one_each.map(look).or(line.look);
        }
    }
    for sequence in &mut section.sequences {
        sequence.name = format!("{name}: {}", sequence.name);
        sequence.result = place;
    }
    section
}

impl Section {
    /// Adds tables, charts and pictures of another result.
    fn add(&mut self, other: Self) {
        self.sequences.extend(other.sequences);
        for table in other.tables {
            let same =
                |known: &&mut PageTable| known.title == table.title && known.header == table.header;
            match self.tables.iter_mut().find(same) {
                Some(known) => known.rows.extend(table.rows),
                None => self.tables.push(table),
            }
        }
        for chart in other.charts {
            match self.charts.iter_mut().find(|known| known.title == chart.title) {
                Some(known) => {
                    let before = known.lines.len();
                    let bands = chart.bands.iter().map(|pair| pair.map(|line| line + before));
                    known.bands.extend(bands);
                    known.lines.extend(chart.lines);
                }
                None => self.charts.push(chart),
            }
        }
        self.maps.extend(other.maps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Chart;

    fn section(title: &str, sentence: &str, fact: &str) -> Section {
        Section {
            title: title.to_owned(),
            sentence: sentence.to_owned(),
            facts: vec![("Controller".to_owned(), fact.to_owned())],
            ..Section::default()
        }
    }

    fn of(results: &[(&str, Section)]) -> Section {
        side_by_side(results.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect())
    }

    #[test]
    fn two_results_are_told_apart_in_title_sentence_and_facts() {
        let run = |cc: &str| format!("cellpace run under {cc}: 1 connection");
        let [cubic, copa] = [("Cubic", "cubic"), ("Copa", "copa")]
            .map(|(word, cc)| section(&run(cc), &format!("{word} was as it is."), cc));
        let both = of(&[("a", cubic.clone()), ("b", copa)]);
        assert_eq!(both.title, "cellpace run under cubic, then copa: 1 connection");
        assert_eq!(both.sentence, "a: cubic was as it is. b: copa was as it is.");
        assert_eq!(both.facts, [("Controller".to_owned(), "cubic, then copa".to_owned())]);
        assert_eq!(both.results, ["a", "b"]);
        let same = of(&[("a", cubic.clone()), ("b", cubic.clone())]);
        assert_eq!((&same.title, same.facts[0].1.as_str()), (&cubic.title, "cubic"));
    }

    #[test]
    fn of_many_results_the_first_few_are_named() {
        let names: Vec<String> = (0..30).map(|number| format!("r{number}")).collect();
        let results: Vec<(&str, Section)> =
            names.iter().map(|name| (name.as_str(), section(name, "A.", name))).collect();
        let all = of(&results);
        assert_eq!(all.title, "r0, r1, r2 and 27 more");
        assert_eq!((all.sentence.as_str(), all.results.len()), ("", 30));
        assert_eq!(all.facts[0].1, "r0, r1, r2 and 27 more");
    }

    #[test]
    fn titles_that_overlap_or_are_no_ascii_stay_whole() {
        let titles = |texts: &[&str]| {
            title(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(titles(&["a a", "a a a"]), "a a, then a a");
        assert_eq!(
            titles(&["\u{fc}ber \u{e9}", "\u{fc}ber \u{e8}"]),
            "\u{fc}ber \u{e9}, then \u{e8}"
        );
        assert_eq!(titles(&["", "x"]), ", then x");
        assert_eq!(titles(&["x: 1", "y: 1"]), "x, then y: 1");
        assert_eq!(
            titles(&[
                "Sent to 10.6.4.1:5260 under verus, cubic",
                "Sent to 10.6.9.1:5260 under cubic"
            ]),
            "Sent to 10.6.4.1:5260 under verus, cubic; then 10.6.9.1:5260 under cubic"
        );
        assert_eq!(
            titles(&["Sent to a:1 under verus, cubic", "Sent to a:1 under verus, bbr"]),
            "Sent to a:1 under verus, cubic; then verus, bbr"
        );
    }

    #[test]
    fn each_result_looks_like_its_controller_and_two_of_one_are_told_apart() {
        let chart = |title: &str, names: [&str; 2]| Chart {
            title: title.to_owned(),
            lines: names.map(|name| Line { name: name.to_owned(), ..Line::default() }).into(),
            ..Chart::default()
        };
        let run = |cc: &[&str]| Section {
            controllers: cc.iter().map(|cc| (*cc).to_owned()).collect(),
            charts: vec![chart("Rate", ["flow 1", "flow 2"]), chart("RTT", ["smoothed", "least"])],
            ..Section::default()
        };
        let looks = |all: &Section| -> Vec<Vec<Option<usize>>> {
            let of = |chart: &Chart| chart.lines.iter().map(|line| line.look).collect();
            all.charts.iter().map(of).collect()
        };
        let both = of(&[("a", run(&["cubic", "cubic"])), ("b", run(&["copa"]))]);
        assert_eq!(both.controllers, ["cubic", "copa"]);
        let [over_time, distribution] = &looks(&both)[..] else { panic!() };
        assert_eq!(over_time, &[0, 0, 1, 1].map(Some), "one colour for all flows of a controller");
        assert_eq!(distribution, &[0, 2, 1, 3].map(Some), "what is of one flow differs");
        let same = of(&[("a", run(&["cubic"])), ("b", run(&["cubic"]))]);
        assert_eq!((same.controllers.len(), &looks(&same)[0]), (2, over_time));
        let mixed = of(&[("a", run(&["cubic", "copa"])), ("b", run(&["copa"]))]);
        assert!(mixed.controllers.is_empty());
        assert_eq!(looks(&mixed)[0], [None; 4]);
    }
}
