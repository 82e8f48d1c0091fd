//! Heatmaps as one HTML page that needs nothing else, not even a script.

use std::fmt::Write;

use super::colours::{LEVELS, variables};
use super::map::Heatmap;
use super::svg::inline;
use crate::html::{escape, fill};

const TEMPLATE: &str = include_str!("../../assets/heatmap.html");
const STYLE: &str = include_str!("../../assets/page.css");

/// A page of facts, tables and heatmaps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeatmapPage {
    /// Its heading.
    pub title: String,
    /// Version of the program.
    pub version: String,
    /// Names and values that stand below the heading.
    pub facts: Vec<(String, String)>,
    /// Pictures, each with a note, which may be empty.
    pub maps: Vec<(Heatmap, String)>,
    /// Tables below.
    pub tables: Vec<PageTable>,
}

/// A table of a [`HeatmapPage`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageTable {
    /// Its heading.
    pub title: String,
    /// A note, which may be empty.
    pub note: String,
    /// Names of the columns; the first holds names, the others hold numbers.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// The page as one file: no network, no script, light and dark as the reader's system is.
pub fn heatmap_html(page: &HeatmapPage) -> String {
    let (title, version) = (escape(&page.title), escape(&page.version));
    let facts: String = page.facts.iter().map(|(name, value)| fact(name, value)).collect();
    let maps: String = page.maps.iter().map(|(map, note)| picture(map, note)).collect();
    let tables: String = page.tables.iter().map(table).collect();
    fill(
        TEMPLATE,
        &[
            ("title", &title),
            ("version", &version),
            ("colours", &colours()),
            ("style", STYLE),
            ("facts", &facts),
            ("maps", &maps),
            ("tables", &tables),
        ],
    )
}

/// Variables for light, dark and print, and the classes that the pictures use.
fn colours() -> String {
    let (light, dark) = (variables(false), variables(true));
    let mut css = format!(
        ":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}@media print{{:root{{{light}}}}}"
    );
    for level in 0..LEVELS {
        let _ = write!(css, ".h{level}{{stroke:var(--h{level})}}.f{level}{{fill:var(--h{level})}}");
    }
    css
}

pub(crate) fn fact(name: &str, value: &str) -> String {
    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
}

fn picture(map: &Heatmap, text: &str) -> String {
    format!(
        "<section>\n<div class=\"scroll\" tabindex=\"0\">{}</div>\n{}</section>\n",
        inline(map),
        note(text)
    )
}

fn note(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("<p class=\"note\">{}</p>\n", escape(text))
    }
}

pub(crate) fn table(table: &PageTable) -> String {
    let cell = |element: &str, place: usize, text: &str| {
        let class = if place == 0 { " class=\"word\"" } else { "" };
        format!("<{element}{class}>{}</{element}>", escape(text))
    };
    let row = |element: &str, cells: &[String]| {
        let cells = cells.iter().enumerate().map(|(place, text)| cell(element, place, text));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let body: String = table.rows.iter().map(|cells| row("td", cells)).collect();
    format!(
        "<section>\n<div class=\"head\"><h2>{}</h2></div>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"narrow\">\
         <thead>{}</thead><tbody>\n{body}</tbody></table></div>\n{}</section>\n",
        escape(&table.title),
        row("th", &table.header),
        note(&table.note)
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::heatmap::example;

    pub(crate) fn page() -> HeatmapPage {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        HeatmapPage {
            title: "Markov table of verus:r=2".to_owned(),
            version: "0.1.0".to_owned(),
            facts: vec![("States".to_owned(), "25488".to_owned())],
            maps: vec![
                (example::matrix(), "Figure 5.".to_owned()),
                (example::zoom(), String::new()),
            ],
            tables: vec![PageTable {
                title: "Most used states".to_owned(),
                note: String::new(),
                header: texts(&["state", "transitions"]),
                rows: vec![texts(&["20 ms, 3 packets", "4711"])],
            }],
        }
    }

    #[test]
    fn the_page_holds_everything_and_asks_for_nothing() {
        let page = heatmap_html(&page());
        for part in ["Markov table of verus:r=2", "<dd>25488</dd>", "Figure 5.", "<td>4711</td>"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<svg class=\"heat\"").count(), 2);
        for outside in ["src=", "@import", "url(h", "<script", "{{"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
        assert!(page.len() < 500_000, "{}", page.len());
    }

    #[test]
    fn names_from_users_cannot_become_markup() {
        let nasty = "</dd><script>alert(1)</script>{{style}}".to_owned();
        let mut page = page();
        page.title.clone_from(&nasty);
        page.facts[0] = (nasty.clone(), nasty.clone());
        page.maps[0].0.title.clone_from(&nasty);
        page.tables[0].rows[0][0] = nasty;
        let html = heatmap_html(&page);
        assert!(!html.contains("<script"));
        assert_eq!(html.matches("--ground: #fff").count(), 2, "a name must not fill a place");
    }
}
