//! The files of the page. They hold no secret: whoever may connect gets them.

use cellpace_report::page_basis;

/// A file's content type and content.
pub(crate) fn file(path: &str) -> Option<(&'static str, String)> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    const STYLE: &str = "text/css; charset=utf-8";
    let text = |text: &str| text.to_owned();
    Some(match path {
        "/" => ("text/html; charset=utf-8", text(include_str!("../assets/live.html"))),
        "/live.css" => (STYLE, page_basis::style() + include_str!("../assets/live.css")),
        "/uplot.js" => (SCRIPT, page_basis::uplot()),
        "/report.js" => (SCRIPT, page_basis::charts()),
        "/main.js" => (SCRIPT, text(include_str!("../assets/main.js"))),
        "/stream.js" => (SCRIPT, text(include_str!("../assets/stream.js"))),
        "/table.js" => (SCRIPT, text(include_str!("../assets/table.js"))),
        "/charts.js" => (SCRIPT, text(include_str!("../assets/charts.js"))),
        "/detail.js" => (SCRIPT, text(include_str!("../assets/detail.js"))),
        "/format.js" => (SCRIPT, text(include_str!("../assets/format.js"))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 10] = [
        "/",
        "/live.css",
        "/uplot.js",
        "/main.js",
        "/stream.js",
        "/table.js",
        "/charts.js",
        "/report.js",
        "/detail.js",
        "/format.js",
    ];

    #[test]
    fn what_the_files_name_is_there_and_nothing_comes_from_elsewhere() {
        for path in FILES {
            let (_, content) = file(path).unwrap();
            // A name of the language, which no browser opens.
            let content = content.replace("http://www.w3.org/2000/svg", "");
            if path == "/uplot.js" {
                continue;
            }
            let named = content.split(['"', '\'']).filter(|text| {
                let is_name = !text.contains(' ') && text.contains('.');
                is_name && (text.starts_with("./") || text.starts_with('/'))
            });
            for name in named {
                let name = format!("/{}", name.trim_start_matches("./").trim_start_matches('/'));
                assert!(file(&name).is_some(), "{path} names {name}");
            }
            for wrong in ["http:", "https:", "innerHTML", "outerHTML", "insertAdjacent", "eval("] {
                assert!(!content.contains(wrong), "{path} has {wrong}");
            }
        }
        assert!(file("/../Cargo.toml").is_none() && file("/uplot").is_none());
    }

    #[test]
    fn the_page_has_no_script_and_no_style_of_its_own() {
        let page = file("/").unwrap().1;
        for own in ["<style", " style=", " onclick", " onload", " onerror", "javascript:"] {
            assert!(!page.contains(own), "{own}");
        }
        let scripts = page.matches("<script").count();
        assert_eq!(page.matches("></script>").count(), scripts);
        let licence = file("/uplot.js").unwrap().1;
        assert!(licence.contains("Permission is hereby granted"), "uPlot's licence goes with it");
    }
}
