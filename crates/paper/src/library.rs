//! The claims that come with the program, or those of a folder.

use std::fs;
use std::io::Read;
use std::path::Path;

use cellpace_base::nearest;

use crate::check::check_tests;
use crate::claim::Claim;
use crate::embedded::CLAIMS;
use crate::{PaperError, Verdict};

/// Claims, by paper and in its order.
#[derive(Debug, Clone)]
pub struct Library {
    claims: Vec<Claim>,
}

impl Library {
    /// The claims that come with the program.
    ///
    /// # Errors
    /// Never: a test reads all of them.
    pub fn embedded() -> Result<Self, PaperError> {
        Self::of(CLAIMS.iter().copied())
    }

    /// The claims in the files `PAPER/NAME.toml` of a folder.
    ///
    /// # Errors
    /// When there is none, or a file cannot be read or is no claim.
    pub fn of_folder(folder: &Path) -> Result<Self, PaperError> {
        let wrong =
            |error: std::io::Error| PaperError::Invalid(format!("{}: {error}", folder.display()));
        let mut files = Vec::new();
        for paper in fs::read_dir(folder).map_err(wrong)? {
            let paper = paper.map_err(wrong)?.path();
            if !paper.is_dir() {
                continue;
            }
            for file in fs::read_dir(&paper).map_err(wrong)? {
                let file = file.map_err(wrong)?.path();
                let (Some(stem), Some(paper)) = (file.file_stem(), paper.file_name()) else {
                    continue;
                };
                if file.extension().is_some_and(|ending| ending == "toml") {
                    let name = format!("{}/{}", paper.to_string_lossy(), stem.to_string_lossy());
                    files.push((name, read_claim(&file)?));
                }
            }
        }
        if files.is_empty() {
            let why = "there is no claim: no file PAPER/NAME.toml";
            return Err(PaperError::Invalid(format!("{}: {why}", folder.display())));
        }
        Self::of(files.iter().map(|(name, text)| (&**name, &**text)))
    }

    fn of<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, PaperError> {
        let claims: Result<Vec<Claim>, PaperError> =
            files.map(|(name, text)| Claim::read(name, text)).collect();
        let mut claims = claims?;
        claims.iter().try_for_each(check_tests)?;
        claims.sort_by(|a, b| (a.paper(), a.order, &a.id).cmp(&(b.paper(), b.order, &b.id)));
        Ok(Self { claims })
    }

    /// All claims.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The papers.
    pub fn papers(&self) -> Vec<&str> {
        let mut papers: Vec<&str> = self.claims.iter().map(Claim::paper).collect();
        papers.dedup();
        papers
    }

    /// The claims that these words name: an id, a paper, or either with `*` for any text. No word
    /// names all.
    ///
    /// # Errors
    /// When a word names none.
    pub fn select(&self, words: &[String]) -> Result<Vec<&Claim>, PaperError> {
        for word in words {
            if !self.claims.iter().any(|claim| is_named(claim, word)) {
                return Err(self.unknown(word));
            }
        }
        let is_wanted =
            |claim: &&Claim| words.is_empty() || words.iter().any(|word| is_named(claim, word));
        Ok(self.claims.iter().filter(is_wanted).collect())
    }

    fn unknown(&self, word: &str) -> PaperError {
        let names = self.claims.iter().map(|claim| &*claim.id).chain(self.papers());
        let hint = match nearest(word, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`cellpace paper list` names them".to_owned(),
        };
        PaperError::Invalid(format!("there is no claim or paper `{word}`; {hint}"))
    }

    /// How many claims have each expected verdict.
    pub fn counts<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> [(Verdict, usize); 6] {
        let mut counts = Verdict::ALL.map(|verdict| (verdict, 0));
        for claim in claims {
            let of = counts.iter_mut().find(|(verdict, _)| *verdict == claim.expected);
            if let Some((_, count)) = of {
                *count += 1;
            }
        }
        counts
    }
}

fn is_named(claim: &Claim, word: &str) -> bool {
    word == claim.paper() || matches(&claim.id, word)
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn matches(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else { return text == first };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    // The first place of each part leaves most room for the parts after it.
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Bytes that a claim's file has at most.
const MAX_CLAIM_BYTES: u64 = 1_000_000;

fn read_claim(file: &Path) -> Result<String, PaperError> {
    let wrong = |why: String| PaperError::Invalid(format!("{}: {why}", file.display()));
    let mut text = String::new();
    let source = fs::File::open(file).map_err(|error| wrong(error.to_string()))?;
    let read = source.take(MAX_CLAIM_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| wrong(error.to_string()))?;
    match text.len() as u64 > MAX_CLAIM_BYTES {
        true => Err(wrong("more than 1 MB, the most that a claim has".into())),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_any_text() {
        assert!(matches("verus-fig1", "verus-*") && matches("verus-fig1", "*fig*"));
        assert!(!matches("verus-fig10", "*fig1") && matches("verus-fig1", "*fig1"));
        assert!(matches("verus-fig1", "v*s*1") && !matches("verus-fig1", "verus-fig1*1"));
        assert!(!matches("verus-fig1", &"*g".repeat(50_000)));
    }

    /// Adds the names of the functions in the Rust files below a folder.
    fn add_functions(folder: &Path, names: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add_functions(&path, names);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let name = |rest: &str| rest.split('(').next().unwrap_or_default().to_owned();
                names.extend(text.split("fn ").skip(1).map(name));
            }
        }
    }

    #[test]
    fn the_tests_that_stand_for_components_are_there() {
        let mut functions = Vec::new();
        add_functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut functions);
        for claim in Library::embedded().unwrap().claims() {
            for wanted in claim.tests.iter().flat_map(|tests| &tests.names) {
                let is_there = functions.iter().any(|name| name.starts_with(wanted));
                assert!(is_there, "{}: no test begins with {wanted}", claim.id);
            }
        }
    }

    #[test]
    fn every_claim_file_is_embedded_and_reads() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let names = |library: &Library| -> Vec<String> {
            library.claims.iter().map(|claim| claim.id.clone()).collect()
        };
        let embedded = Library::embedded().unwrap();
        assert_eq!(names(&embedded), names(&Library::of_folder(&folder).unwrap()));
        assert!(!embedded.claims.is_empty());
    }
}
