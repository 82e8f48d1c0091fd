//! The pages for people: README.md and what stands below `docs/`, with their links and code.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// One page in Markdown.
pub(crate) struct Page {
    /// From the root of the repository.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) links: Vec<String>,
    /// Anchors of its headings, as hosts of repositories and mdBook make them.
    pub(crate) anchors: BTreeSet<String>,
    pub(crate) blocks: Vec<Block>,
    /// Code inside of sentences and tables.
    pub(crate) spans: Vec<String>,
}

/// A block of code between fences, or an indented one.
pub(crate) struct Block {
    /// What stands behind the opening fence.
    pub(crate) info: String,
    pub(crate) text: String,
    /// Where the text stands in the page.
    pub(crate) range: Range<usize>,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md, and every page below `docs/`, sorted.
pub(crate) fn all() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned()];
    add_below("docs", &mut names);
    names.sort();
    names.into_iter().map(Page::read).collect()
}

fn add_below(folder: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            add_below(&name, names);
        } else if name.ends_with(".md") {
            names.push(name);
        }
    }
}

impl Page {
    pub(crate) fn read(name: String) -> Self {
        let text = fs::read_to_string(root().join(&name)).unwrap();
        let mut page = Self {
            name,
            text: String::new(),
            links: Vec::new(),
            anchors: BTreeSet::new(),
            blocks: Vec::new(),
            spans: Vec::new(),
        };
        let (mut heading, mut block) = (None::<String>, None::<Block>);
        for (event, range) in Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.add_anchor(&heading.take().unwrap()),
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.into_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    block = Some(Block { info, text: String::new(), range: range.end..range.end });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(part) | Event::Code(part) if heading.is_some() => {
                    heading.as_mut().unwrap().push_str(&part);
                }
                Event::Text(part) => {
                    let Some(block) = &mut block else { continue };
                    block.range = block.range.start.min(range.start)..range.end;
                    block.text.push_str(&part);
                }
                Event::Code(code) => page.spans.push(code.into_string()),
                _ => {}
            }
        }
        Self { text, ..page }
    }

    fn add_anchor(&mut self, heading: &str) {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let anchor: String =
            heading.to_lowercase().replace(' ', "-").chars().filter(kept).collect();
        // The second heading of the same text gets a number.
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let mut candidates = std::iter::once(anchor.clone()).chain(numbered);
        let free = candidates.find(|one| !self.anchors.contains(one)).unwrap();
        self.anchors.insert(free);
    }

    /// The folder of the page, from the root of the repository.
    pub(crate) fn folder(&self) -> &Path {
        Path::new(&self.name).parent().unwrap()
    }
}
