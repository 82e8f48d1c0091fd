//! Names from outside never become markup: every text of every kind of result is replaced in turn by
//! one that would like to, and many of them at once by random ones.

use std::sync::LazyLock;

use crate::example;
use cellpace_report::{Document, page, to_json};
use proptest::prelude::*;
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
        ("conform", include_str!("browser/conform.json").to_owned()),
    ]
}

#[test]
fn no_text_of_any_result_becomes_markup() {
    let mut tried = 0;
    for (name, text) in documents() {
        let objects = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let objects: Vec<Value> = objects.collect::<Result<_, _>>().unwrap();
        let plain = page(&[Document::of(name, &objects).unwrap()]).unwrap();
        let mut paths = Vec::new();
        texts(&objects[0], "", &mut paths);
        for path in &paths {
            let mut objects = objects.clone();
            *objects[0].pointer_mut(path).unwrap() = HOSTILE.into();
            let document = [Document::of(HOSTILE, &objects).unwrap()];
            // A field that is one of a few words is refused.
            let Ok(page) = page(&document) else { continue };
            assert_eq!(markup(&page), markup(&plain), "{name}{path}");
            tried += 1;
        }
    }
    assert!(tried > 100, "only {tried} texts");
}

/// What markup, scripts, styles, templates and file systems are made of.
const FRAGMENTS: [&str; 36] = [
    "<",
    ">",
    "</",
    "/>",
    "<!--",
    "-->",
    "]]>",
    "<![CDATA[",
    "<script>",
    "</script",
    "</style>",
    "</title>",
    "<svg onload=",
    "</text>",
    "<img src=x onerror=",
    "\"",
    "'",
    "`",
    "${",
    "{{data}}",
    "{{",
    "&",
    "&lt;",
    "&#60;",
    ";",
    "=",
    "\\",
    "\\u003c",
    "javascript:",
    "../",
    "\u{0}",
    "\u{1b}",
    "\u{2028}",
    "\u{202e}",
    "\n",
    "verus",
];

fn hostile_text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&FRAGMENTS[..]), 0..9)
        .prop_map(|fragments| fragments.concat())
}

/// The names of all tags, in order.
fn tags(text: &str) -> Vec<&str> {
    let names = text.match_indices('<').map(|(at, _)| {
        let rest = &text[at + 1..];
        &rest[..rest.find([' ', '>', '\n']).unwrap_or(rest.len()).min(24)]
    });
    names.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_names_never_become_markup(
        which in 0..9_usize,
        names in prop::collection::vec(hostile_text(), 4),
        replaced in prop::collection::vec(0..6_usize, 64),
    ) {
        let Target { kind, objects, free, plain } = &TARGETS[which];
        let mut objects = objects.clone();
        for (at, path) in free.iter().enumerate() {
            // Two in six stay as they are.
            if let Some(name) = names.get(replaced[at % replaced.len()]) {
                *objects[0].pointer_mut(path).unwrap() = name.as_str().into();
            }
        }
        let document = [Document::of(&names[0], &objects).unwrap()];
        let made = page(&document).unwrap_or_else(|error| panic!("{kind}: {error}"));
        prop_assert_eq!(&tags(&made).join(" "), plain);
    }
}

/// A document, with those of its texts that may be anything.
struct Target {
    kind: &'static str,
    objects: Vec<Value>,
    free: Vec<String>,
    /// The tags of its page.
    plain: String,
}

static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
    let target = |(kind, text): (&'static str, String)| {
        let objects: Vec<Value> =
            serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
        let made = |objects: &[Value]| page(&[Document::of(kind, objects).unwrap()]);
        let mut free = Vec::new();
        texts(&objects[0], "", &mut free);
        // A field that is one of a few words is refused.
        free.retain(|path| {
            let mut objects = objects.clone();
            *objects[0].pointer_mut(path).unwrap() = "<b>".into();
            made(&objects).is_ok()
        });
        let plain = tags(&made(&objects).unwrap()).join(" ");
        Target { kind, objects, free, plain }
    };
    documents().into_iter().map(target).collect()
});
