//! Names from outside never become markup: every text of every kind of result is replaced in turn by
//! one that would like to, and many of them at once by random ones.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the tests in a browser use all of it")]
mod example;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use cellpace_report::{Document, charts, heatmap_svg, page, to_json};
use cellpace_report::{Heatmap, HeatmapAxis, HeatmapCell};
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

/// Whether `svg` is one picture of `known` tags: every sign that could end a text is escaped.
fn check_svg(svg: &str, known: &BTreeSet<String>) -> Result<(), TestCaseError> {
    for tag in tags(svg) {
        prop_assert!(known.contains(tag), "the tag `{tag}`");
    }
    for (at, _) in svg.match_indices('&') {
        let entity = ["&lt;", "&gt;", "&amp;", "&quot;", "&#39;", "&apos;"];
        prop_assert!(entity.iter().any(|entity| svg[at..].starts_with(entity)), "{}", &svg[at..]);
    }
    let is_control = |letter: char| letter.is_control() && !"\n\t\r".contains(letter);
    prop_assert!(!svg.contains(is_control));
    Ok(())
}

/// The tags of the pictures of all documents as they are.
fn tags_of_pictures() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut add = |svg: &str| known.extend(tags(svg).into_iter().map(str::to_owned));
    for (name, text) in documents() {
        let document = Document::read(name, &text).unwrap();
        charts(&[document]).unwrap_or_default().iter().for_each(|(_, svg)| add(svg));
    }
    add(&heatmap_svg(&[heatmap("")]));
    known
}

fn heatmap(text: &str) -> Heatmap {
    let axis = || HeatmapAxis {
        title: text.to_owned(),
        len: 2,
        labels: vec![(0.5, text.to_owned())],
        lines: vec![1],
    };
    Heatmap {
        title: text.to_owned(),
        unit: text.to_owned(),
        columns: axis(),
        rows: axis(),
        cells: vec![HeatmapCell { row: 0, column: 1, value: 1.0 }],
    }
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
        let document = [Document::of(&names[0], objects).unwrap()];
        let made = page(&document).unwrap_or_else(|error| panic!("{kind}: {error}"));
        prop_assert_eq!(&tags(&made).join(" "), plain);
        for (file, svg) in charts(&document).unwrap_or_default() {
            check_svg(&svg, &PICTURE_TAGS)?;
            prop_assert!(file.ends_with(".svg") && !file.starts_with('.'), "{}", file);
            let is_wrong = |sign: char| "/\\<>:\"'&".contains(sign) || sign.is_control();
            prop_assert!(!file.contains(is_wrong), "{}", file);
        }
        check_svg(&heatmap_svg(&[heatmap(&names[0])]), &PICTURE_TAGS)?;
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
        let made = |objects: &[Value]| page(&[Document::of(kind, objects.to_vec()).unwrap()]);
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

static PICTURE_TAGS: LazyLock<BTreeSet<String>> = LazyLock::new(tags_of_pictures);
