//! Names from outside never become markup: every text of every kind of result is replaced in turn by
//! one that would like to.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the tests in a browser use all of it")]
mod example;

use cellpace_report::{Document, charts, page, to_json};
use serde_json::Value;

const HOSTILE: &str = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'><b>{{script}}&#60;\u{1}]]>-->";

/// Paths of all texts and keys of a document.
fn texts(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(path.to_owned()),
        Value::Array(items) => {
            // The first few stand for all.
            let items = items.iter().take(3).enumerate();
            items.for_each(|(at, item)| texts(item, &format!("{path}/{at}"), found));
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| *name != "schema") {
                texts(
                    field,
                    &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        _ => {}
    }
}

/// How often a page has what only its own template may have.
fn markup(page: &str) -> [usize; 5] {
    ["<script", "</script", "</style", "<img", "<b>"].map(|tag| page.matches(tag).count())
}

fn documents() -> Vec<(&'static str, String)> {
    vec![
        ("comparison", to_json(&example::comparison())),
        ("repeated", to_json(&example::repeated())),
        ("flows", to_json(&example::large("shared", 1, 3, 2))),
        ("transfer", include_str!("browser/transfer.json").to_owned()),
        ("run", include_str!("browser/run.json").to_owned()),
        ("attach", include_str!("browser/attach.json").to_owned()),
        ("probe", include_str!("browser/probe.json").to_owned()),
        ("table", include_str!("browser/table.json").to_owned()),
        ("claims", include_str!("browser/claims.json").to_owned()),
    ]
}

#[test]
fn no_text_of_any_result_becomes_markup() {
    let mut tried = 0;
    for (name, text) in documents() {
        let objects = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let objects: Vec<Value> = objects.collect::<Result<_, _>>().unwrap();
        let plain = page(&[Document::of(name, objects.clone()).unwrap()]).unwrap();
        let mut paths = Vec::new();
        texts(&objects[0], "", &mut paths);
        for path in &paths {
            let mut objects = objects.clone();
            *objects[0].pointer_mut(path).unwrap() = HOSTILE.into();
            let document = [Document::of(HOSTILE, objects).unwrap()];
            // A field that is one of a few words is refused.
            let Ok(page) = page(&document) else { continue };
            assert_eq!(markup(&page), markup(&plain), "{name}{path}");
            for (file, svg) in charts(&document).unwrap_or_default() {
                // It has a style of its own.
                assert_eq!(markup(&svg), [0, 0, 1, 0, 0], "{name}{path}: {file}");
                assert!(!svg.contains('\u{1}') && !file.contains(['/', '<']), "{name}{path}");
            }
            tried += 1;
        }
    }
    assert!(tried > 100, "only {tried} texts");
}
