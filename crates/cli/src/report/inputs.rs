//! What `cellpace report` reads: files, folders of files, and standard input.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::panic;
use std::path::{Path, PathBuf};

use cellpace_lab::recorded::{is_capture, read_recorded, read_recorded_capture};
use cellpace_report::Document;

use crate::error::CommandError;
use crate::output::is_stdout;

/// A result in JSON is far smaller: this keeps a wrong file from filling the memory.
const MAX_RESULT_BYTES: u64 = 256 << 20;

/// Results taken from folders.
const MAX_FILES: usize = 500;

/// Bytes of JSON taken from folders.
const MAX_FOLDER_BYTES: u64 = 256 << 20;

/// Folders in folders that are looked into, and entries that are looked at.
const MAX_DEPTH: usize = 8;
const MAX_ENTRIES: usize = 20_000;

/// Names of files that may be results.
const ENDINGS: [&str; 3] = ["json", "jsonl", "parquet"];

/// What Parquet begins with.
const PARQUET: &[u8] = b"PAR1";

/// Everything that was read.
#[derive(Default)]
pub(super) struct Inputs {
    pub(super) documents: Vec<Document>,
    /// Files of folders that are on no page, and why.
    pub(super) left_out: Vec<(String, String)>,
    /// Whether there was a folder among what was asked for.
    pub(super) has_folder: bool,
}

/// Reads files and folders. What cannot be read in a folder is left out.
///
/// # Errors
/// When a file that was named is no result, or no folder has one.
pub(super) fn inputs(paths: &[PathBuf]) -> Result<Inputs, CommandError> {
    if paths.iter().filter(|path| is_stdout(path)).count() > 1 {
        return Err(CommandError::usage("`-`: standard input is one result; give it once"));
    }
    let mut inputs = Inputs::default();
    for path in paths {
        match path.is_dir() {
            true => inputs.add_folder(path)?,
            false => inputs.documents.push(read(path).map_err(CommandError::usage)?),
        }
    }
    Ok(inputs)
}

impl Inputs {
    fn add_folder(&mut self, folder: &Path) -> Result<(), CommandError> {
        self.has_folder = true;
        let before = self.documents.len();
        let mut walk = Walk::default();
        walk.enter(folder, 0);
        walk.files.sort();
        let mut bytes = 0;
        for (place, file) in walk.files.iter().enumerate() {
            let size = file.metadata().map_or(0, |facts| facts.len());
            let is_too_much = bytes + size > MAX_FOLDER_BYTES;
            let read = match () {
                () if place >= MAX_FILES => Err(format!("more than {MAX_FILES} results")),
                () if is_too_much => {
                    Err(format!("more than {} MB of results", MAX_FOLDER_BYTES >> 20))
                }
                () => read(file).map_err(without_name(file)),
            };
            match read.and_then(|document| known(document).map_err(without_name(file))) {
                Ok(document) => {
                    bytes += size;
                    self.documents.push(document);
                }
                Err(why) => self.left_out.push((file.display().to_string(), why)),
            }
        }
        self.left_out.append(&mut walk.left_out);
        if self.documents.len() > before {
            return Ok(());
        }
        let folder = folder.display();
        let why = match self.left_out.first() {
            Some((file, why)) => format!("no result of cellpace in it ({file}: {why})"),
            None => "no file in it ends with .json, .jsonl or .parquet".to_owned(),
        };
        Err(CommandError::usage(format!("{folder}: {why}")))
    }
}

/// An error's text without the name of the file in front of it.
fn without_name(file: &Path) -> impl Fn(String) -> String {
    let name = format!("{}: ", file.display());
    move |why| why.strip_prefix(&name).map_or(why.clone(), str::to_owned)
}

/// Refuses a result that no page can show, before it spoils the page of others.
fn known(document: Document) -> Result<Document, String> {
    document.check().map_err(|error| error.to_string())?;
    Ok(document)
}

/// The files of a folder that may be results.
#[derive(Default)]
struct Walk {
    files: Vec<PathBuf>,
    left_out: Vec<(String, String)>,
    entries: usize,
}

impl Walk {
    fn enter(&mut self, folder: &Path, depth: usize) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.left_out.push((folder.display().to_string(), reason(&error)));
                return;
            }
        };
        let mut entries: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).take(MAX_ENTRIES).collect();
        entries.sort();
        for path in entries {
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            // Links could lead in a circle.
            let is_folder = path.is_dir() && !path.is_symlink();
            if is_hidden {
                continue;
            }
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                let why = format!("more than {MAX_ENTRIES} files; the rest is not looked at");
                self.left_out.push((folder.display().to_string(), why));
                return;
            }
            match is_folder {
                true if depth >= MAX_DEPTH => {
                    let why = format!("more than {MAX_DEPTH} folders deep");
                    self.left_out.push((path.display().to_string(), why));
                }
                true => self.enter(&path, depth + 1),
                false if may_be_result(&path) => self.files.push(path),
                false => {}
            }
        }
    }
}

fn may_be_result(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) && path.is_file()
}

/// Reads one result. Errors name the file.
pub(crate) fn read(path: &Path) -> Result<Document, String> {
    let name =
        if is_stdout(path) { "standard input".to_owned() } else { path.display().to_string() };
    let wrong = |error: io::Error| format!("{name}: {}", reason(&error));
    if is_stdout(path) {
        return read_text(&name, io::stdin().lock());
    }
    let file = File::open(path).map_err(wrong)?;
    let mut first = Vec::new();
    (&file).take(PARQUET.len() as u64).read_to_end(&mut first).map_err(wrong)?;
    if first == PARQUET {
        return read_parquet(&name, &file);
    }
    if is_capture(&first) {
        (&file).rewind().map_err(wrong)?;
        let capture = BufReader::new(file);
        return read_recorded_capture(&name, capture).map_err(|error| error.to_string());
    }
    read_text(&name, first.as_slice().chain(file))
}

/// The decoder of Parquet panics at some damaged files; they are as wrong as others. No other thread
/// runs meanwhile, whose panic would go unseen.
fn read_parquet(name: &str, file: &File) -> Result<Document, String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let read = panic::catch_unwind(|| Document::read_parquet(name, file));
    panic::set_hook(hook);
    let read = read.map_err(|_| format!("{name}: damaged Parquet"))?;
    read.map_err(|error| error.to_string())
}

fn read_text(name: &str, source: impl Read) -> Result<Document, String> {
    let wrong = |error: io::Error| format!("{name}: {}", reason(&error));
    let mut text = String::new();
    let length = source.take(MAX_RESULT_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
    if length as u64 > MAX_RESULT_BYTES {
        return Err(format!("{name}: larger than {} MB", MAX_RESULT_BYTES >> 20));
    }
    if text.as_bytes().starts_with(PARQUET) {
        return Err(format!("{name}: Parquet is read from a file"));
    }
    let recorded = read_recorded(name, &text);
    recorded.unwrap_or_else(|| Document::read(name, text)).map_err(|error| error.to_string())
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::IsADirectory => "is a folder, not a result".to_owned(),
        io::ErrorKind::InvalidData => "not text: no result of cellpace".to_owned(),
        _ => error.to_string(),
    }
}
