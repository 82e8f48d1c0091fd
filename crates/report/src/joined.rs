//! Results of one kind side by side: one section with the tables and lines of all, each named.

use crate::section::{PageTable, Section};

/// More different texts than this are not all shown.
const MAX_TEXTS: usize = 4;

/// Results of one kind as one: tables and charts with all of them, each named.
pub(crate) fn side_by_side(sections: Vec<(String, Section)>) -> Section {
    let results = distinct(sections.iter().map(|(name, _)| name.clone()));
    let titles = distinct(sections.iter().map(|(_, section)| section.title.clone()));
    let sentences: Vec<String> = sections.iter().filter_map(named_sentence).collect();
    let facts = facts(&sections);
    let count = sections.len();
    let mut sections = sections.into_iter();
    let Some((first_name, first)) = sections.next() else { return Section::default() };
    if count == 1 {
        return first;
    }
    let place = |name: &str| results.iter().position(|known| known == name).unwrap_or(0);
    let mut all = named(&first_name, place(&first_name), first);
    for (name, section) in sections {
        all.add(named(&name, place(&name), section));
    }
    all.title = title(&titles);
    // Tables tell more about many.
    all.sentence = if count > MAX_TEXTS { String::new() } else { sentences.join(" ") };
    Section { facts, results, ..all }
}

/// Each text once.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
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

/// Titles as one: what is different in them stands between what all have.
fn title(titles: &[String]) -> String {
    let [first, others @ ..] = titles else { return String::new() };
    if others.is_empty() {
        return first.clone();
    }
    let begin = others.iter().fold(first.len(), |begin, other| begin.min(common(first, other)));
    // Words stay whole.
    let begin = first[..begin].rfind(|letter: char| !letter.is_alphanumeric());
    let begin = begin.map_or(0, |at| at + first[at..].chars().next().map_or(0, char::len_utf8));
    let backwards = |text: &str| text[begin..].chars().rev().collect::<String>();
    let end = others
        .iter()
        .fold(first.len(), |end, other| end.min(common(&backwards(first), &backwards(other))));
    let tail = &first[first.len() - end..];
    let tail = tail.find(|letter: char| !letter.is_alphanumeric()).map_or("", |at| &tail[at..]);
    let middles: Vec<String> =
        titles.iter().map(|title| title[begin..title.len() - tail.len()].to_owned()).collect();
    format!("{}{}{tail}", &first[..begin], listed(&middles))
}

/// Bytes at the beginning that two texts have in common.
fn common(a: &str, b: &str) -> usize {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    same.map(|(letter, _)| letter.len_utf8()).sum()
}

/// One after the other, the first few of many.
fn listed(texts: &[String]) -> String {
    if texts.len() <= MAX_TEXTS {
        return texts.join(", then ");
    }
    let (shown, rest) = texts.split_at(MAX_TEXTS - 1);
    format!("{} and {} more", shown.join(", "), rest.len())
}

/// The conditions of all: each name once, with its different values.
fn facts(sections: &[(String, Section)]) -> Vec<(String, String)> {
    let all = || sections.iter().flat_map(|(_, section)| &section.facts);
    let values = |wanted: &str| {
        let own = all().filter(|(name, _)| name == wanted);
        listed(&distinct(own.map(|(_, value)| value.clone())))
    };
    let names = distinct(all().map(|(name, _)| name.clone()));
    names.into_iter().map(|name| (name.clone(), values(&name))).collect()
}

/// A section whose rows and lines carry the result's name.
fn named(name: &str, place: usize, mut section: Section) -> Section {
    for table in &mut section.tables {
        table.header.insert(0, "result".to_owned());
        table.rows.iter_mut().for_each(|row| row.insert(0, name.to_owned()));
    }
    for chart in &mut section.charts {
        for line in &mut chart.lines {
            line.name = format!("{name}: {}", line.name);
            line.result = place;
        }
    }
    section
}

impl Section {
    /// Adds tables, charts and pictures of another result.
    fn add(&mut self, other: Self) {
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
                Some(known) => known.lines.extend(chart.lines),
                None => self.charts.push(chart),
            }
        }
        self.maps.extend(other.maps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
