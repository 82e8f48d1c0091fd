//! The result as one HTML file that needs nothing else: no server, no network.

use std::fmt::Write;

use crate::Comparison;
use crate::page::page_json;
use crate::palette;

const TEMPLATE: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");
pub(crate) const UPLOT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
pub(crate) const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
pub(crate) const UPLOT_LICENCE: &str = include_str!("../assets/uplot/LICENSE");

/// The comparison as a page: table, throughput over capacity, queue delay, throughput against
/// delay, windows, flows and delay profiles as far as the runs have them. Runs without series
/// come with table and scatter only. Stays below 3 MB by merging bins when there are many runs.
pub fn html(comparison: &Comparison, title: &str) -> String {
    let title = escape(title);
    let version = escape(&comparison.version);
    let colours = colours();
    let data = page_json(comparison);
    fill(
        TEMPLATE,
        &[
            ("title", &title),
            ("version", &version),
            ("uplot-licence", UPLOT_LICENCE),
            ("uplot-style", UPLOT_STYLE),
            ("colours", &colours),
            ("style", STYLE),
            ("data", &data),
            ("uplot", UPLOT),
            ("script", SCRIPT),
        ],
    )
}

/// Puts the parts into their places in one pass: what looks like a place within a part stays.
pub(crate) fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let length = parts.iter().map(|(_, text)| text.len()).sum::<usize>() + template.len();
    let mut page = String::with_capacity(length);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = after.split_once("}}") else { break };
        let part = parts.iter().find(|(known, _)| *known == name);
        page.push_str(part.map_or("", |(_, text)| text));
        rest = after;
    }
    page.push_str(rest);
    page
}

/// `text` with everything that HTML and XML take for markup, or do not take at all, replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML has no way to write these.
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The palette as CSS variables `--c0`, `--c1`, and so on, for light and dark.
pub(crate) fn colours() -> String {
    let declare = |colours: &[&str]| {
        colours.iter().enumerate().fold(String::new(), |mut css, (index, colour)| {
            let _ = write!(css, "--c{index}:{colour};");
            css
        })
    };
    let (light, dark) = (declare(&palette::ON_LIGHT), declare(&palette::ON_DARK));
    format!(
        ":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}@media print{{:root{{{light}}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn six_controllers_over_300_s_stay_below_3_mb() {
        let page = html(&example::large("drive", 6, 1, 300), "six");
        println!("6 x 300 s: {} bytes", page.len());
        assert!(page.len() < 3_000_000, "{}", page.len());
    }

    #[test]
    fn a_large_sweep_stays_below_3_mb_too() {
        let sweep = example::sweep();
        let page = html(&sweep, "sweep");
        println!("6 x 300 s x 8 traces x 5 seeds: {} bytes", page.len());
        assert!(page.len() < 3_000_000, "{}", page.len());
    }

    #[test]
    fn names_from_users_cannot_become_markup() {
        let mut comparison = example::comparison();
        let nasty = "</script><script>alert(1)</script><b>{{script}}";
        comparison.runs[0].cc = nasty.to_owned();
        comparison.runs[0].trace = nasty.to_owned();
        let page = html(&comparison, "<img src=x onerror=alert(1)>");
        let plain = html(&example::comparison(), "t");
        let scripts = |page: &str| page.matches("<script").count();
        assert_eq!(scripts(&page), scripts(&plain));
        assert_eq!(page.matches("</script").count(), plain.matches("</script").count());
        assert!(!page.contains("<img") && page.contains("&lt;img src=x"));
        assert_eq!(page.matches("uPlot (v1.6.32)").count(), 1, "a name must not fill a place");
    }

    #[test]
    fn the_page_asks_for_nothing_outside() {
        let page = html(&example::comparison(), "t");
        for outside in [
            "src=",
            "@import",
            "url(h",
            "url(/",
            "fetch(",
            "XMLHttpRequest",
            "<link rel=\"stylesheet",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
        assert!(page.contains("Permission is hereby granted"), "uPlot's licence goes with it");
    }

    #[test]
    fn every_place_of_the_template_is_filled() {
        let page = html(&example::comparison(), "t");
        assert!(!page.contains("{{"), "{:?}", page.split_once("{{").map(|(_, rest)| &rest[..40]));
    }
}
