//! The folder of a sweep's results: finished files, what is on the way there, and a manifest.
//!
//! `work/` has a file for each unit that is done; when all cells of a finished file are there, it
//! is written in the order of the plan, and they go. So the finished files have the same bytes
//! whatever ran where and how often it was interrupted. Every file is written aside and renamed.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave_record_batch;
use cellpace_report::{Aside, indented, write_atomically, write_run_table};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::LabError;

use super::cells::{PARTITION_CELLS, Sweep};
use super::unit::{CellRange, UnitTable};

/// The schema of the manifest and its version. Fields are only added within a version.
pub const SWEEP_SCHEMA: &str = "cellpace.sweep/1";

const MANIFEST: &str = "manifest.json";
const WORK: &str = "work";
/// A manifest with a million finished files is smaller.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// What a folder holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepManifest {
    /// [`SWEEP_SCHEMA`].
    pub schema: String,
    /// The version of the program.
    pub version: String,
    /// What identifies the sweep: its plan, the contents of its files and the version.
    pub sweep: String,
    /// The plan.
    pub plan: Map<String, Value>,
    /// The files that the plan names.
    pub files: BTreeMap<String, SweepManifestFile>,
    /// The number of cells.
    pub cells: u64,
    /// Whether all of them are in the parts.
    pub complete: bool,
    /// The files of results that are finished, in the order of the plan.
    pub parts: Vec<SweepPart>,
}

/// A file that a plan names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepManifestFile {
    /// BLAKE3 of its contents, uncompressed.
    pub blake3: String,
    /// Length of its contents in bytes, uncompressed.
    pub bytes: u64,
}

/// A finished file of results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPart {
    /// Its name in the folder.
    pub file: String,
    /// The number of its first cell in the plan.
    pub first: u64,
    /// Its cells, one a row.
    pub cells: u64,
    /// Those of them with an error in place of figures.
    pub errors: u64,
    /// BLAKE3 of the file.
    pub blake3: String,
}

/// The folder of a sweep's results. One process at a time uses it.
#[derive(Debug)]
pub struct SweepFolder {
    root: PathBuf,
    manifest: SweepManifest,
    /// For each finished file that is not there yet, its cells that are.
    done: BTreeMap<u64, Vec<bool>>,
    /// Held as long as the folder is used.
    _lock: File,
}

impl SweepFolder {
    /// Opens the folder of a sweep, which need not exist, and finds what is done.
    ///
    /// # Errors
    /// When it holds something else, such as another plan's results, another process uses it, or
    /// it cannot be read or written.
    pub fn open(root: &Path, sweep: &Sweep) -> Result<Self, LabError> {
        let wrong = |error| cannot(root, error);
        // A mistyped name must not put results among the files of something else.
        if !root.join(MANIFEST).exists() && is_used(root).map_err(wrong)? {
            return Err(LabError::Invalid(format!(
                "{}: is no sweep's folder and not empty: name another",
                root.display()
            )));
        }
        fs::create_dir_all(root).map_err(wrong)?;
        // Before the manifest is read: another process may be about to replace it.
        let lock = lock(root)?;
        let fresh = fresh_manifest(sweep);
        let manifest = match read_manifest(root)? {
            None => fresh,
            Some(found) => continued(root, found, &fresh)?,
        };
        let mut folder =
            Self { root: root.to_owned(), manifest, done: BTreeMap::new(), _lock: lock };
        // A part may be gone or changed since: its cells are then run again.
        folder.drop_missing_parts();
        if !folder.manifest.complete {
            fs::create_dir_all(folder.work()).map_err(wrong)?;
            folder.write_manifest()?;
            folder.find_done(sweep)?;
        }
        Ok(folder)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the folder holds so far.
    pub fn manifest(&self) -> &SweepManifest {
        &self.manifest
    }

    /// The cells that are not done, in the order of the plan.
    pub fn missing(&self) -> Vec<CellRange> {
        let mut missing: Vec<CellRange> = Vec::new();
        let mut add = |range: CellRange| match missing.last_mut() {
            Some(last) if last.end == range.first => last.end = range.end,
            _ => missing.push(range),
        };
        for partition in 0..self.manifest.cells.div_ceil(PARTITION_CELLS) {
            let cells = CellRange::of_partition(partition, self.manifest.cells);
            if self.part_of(cells).is_some() {
                continue;
            }
            let Some(done) = self.done.get(&partition) else {
                add(cells);
                continue;
            };
            let open = (cells.first..cells.end).zip(done).filter(|(_, is_done)| !**is_done);
            for (cell, _) in open {
                add(CellRange { first: cell, end: cell + 1 });
            }
        }
        missing
    }

    /// The number of cells that are done.
    pub fn done(&self) -> u64 {
        self.manifest.cells - self.missing().into_iter().map(CellRange::count).sum::<u64>()
    }

    /// Where the results of units go before a finished file is made of them. Programs that share the
    /// folder may write there with [`write_unit`](Self::write_unit).
    pub fn work(&self) -> PathBuf {
        self.root.join(WORK)
    }

    /// Writes the results of a unit to `work`, the [`work`](Self::work) folder of a sweep. The
    /// file appears whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_unit(work: &Path, unit: &UnitTable) -> Result<PathBuf, LabError> {
        // Names by cells: units of several machines that share the folder do not meet.
        let path = work.join(unit_name(unit.cells));
        let aside = Aside::create(&path).map_err(LabError::failed)?;
        unit.write(aside)
            .map_err(|error| cannot(&path, error))?
            .commit()
            .map_err(LabError::failed)?;
        Ok(path)
    }

    /// Writes the results of a unit that come as the bytes of a Parquet file.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_unit_bytes(work: &Path, cells: CellRange, bytes: &[u8]) -> Result<(), LabError> {
        write_atomically(&work.join(unit_name(cells)), bytes).map_err(LabError::failed)
    }

    /// Notes that the results of these cells are in the work folder, and makes the finished file
    /// that they complete, if they complete one.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn add(&mut self, sweep: &Sweep, cells: CellRange) -> Result<(), LabError> {
        let partition = cells.first / PARTITION_CELLS;
        let whole = CellRange::of_partition(partition, self.manifest.cells);
        // A unit may be done twice, as by a machine that was taken for lost.
        if cells.count() == 0 || self.part_of(whole).is_some() {
            return Ok(());
        }
        let none = || vec![false; whole.count() as usize];
        let done = self.done.entry(partition).or_insert_with(none);
        for cell in cells.first..cells.end.min(whole.end) {
            done[(cell - whole.first) as usize] = true;
        }
        if done.iter().all(|is_done| *is_done) { self.finish(sweep, partition) } else { Ok(()) }
    }

    fn part_of(&self, cells: CellRange) -> Option<&SweepPart> {
        self.manifest.parts.iter().find(|part| part.first == cells.first)
    }

    /// Forgets finished files that are gone or have other bytes than were written.
    fn drop_missing_parts(&mut self) {
        let root = &self.root;
        self.manifest
            .parts
            // By the hash: a file of the same name and length may be another sweep's, or damaged.
            .retain(|part| hash_of(&root.join(&part.file)) == Some(part.blake3.clone()));
        self.manifest.complete = self.is_complete();
    }

    fn is_complete(&self) -> bool {
        let cells: u64 = self.manifest.parts.iter().map(|part| part.cells).sum();
        cells == self.manifest.cells
    }

    /// Notes which cells the work files have.
    fn find_done(&mut self, sweep: &Sweep) -> Result<(), LabError> {
        let files = self.work_files()?;
        for (partition, files) in files {
            let cells = CellRange::of_partition(partition, self.manifest.cells);
            if self.part_of(cells).is_some() {
                // The process ended between the finished file and this.
                files.iter().for_each(|file| forget(file));
                continue;
            }
            let numbers = numbers(sweep, cells);
            let mut done = vec![false; cells.count() as usize];
            for file in files {
                // What cannot be read is done anew.
                let Ok(ids) = read_ids(&file) else {
                    forget(&file);
                    continue;
                };
                for number in ids.iter().filter_map(|id| numbers.get(id)) {
                    done[(number - cells.first) as usize] = true;
                }
            }
            let is_whole = done.iter().all(|is_done| *is_done);
            self.done.insert(partition, done);
            if is_whole {
                self.finish(sweep, partition)?;
            }
        }
        Ok(())
    }

    fn work_files(&self) -> Result<BTreeMap<u64, Vec<PathBuf>>, LabError> {
        let mut files: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
        let work = self.work();
        let entries = fs::read_dir(&work).map_err(|error| cannot(&work, error))?;
        for entry in entries {
            let path = entry.map_err(|error| cannot(&work, error))?.path();
            // Files of other names are none of ours, and stay.
            let first = path.file_name().and_then(|name| first_of(name.to_str()?));
            if let Some(first) = first.filter(|first| *first < self.manifest.cells) {
                files.entry(first / PARTITION_CELLS).or_default().push(path);
            }
        }
        Ok(files)
    }

    /// Makes a finished file of the work files of its cells. If some of them turn out not to be
    /// there, they are missing again.
    fn finish(&mut self, sweep: &Sweep, partition: u64) -> Result<(), LabError> {
        let cells = CellRange::of_partition(partition, self.manifest.cells);
        let files = self.work_files()?.remove(&partition).unwrap_or_default();
        let numbers = numbers(sweep, cells);
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut places: Vec<Option<(usize, usize)>> = vec![None; cells.count() as usize];
        for file in &files {
            let Ok(batch) = read_table(file) else {
                forget(file);
                continue;
            };
            for (row, id) in ids_of(&batch)?.into_iter().enumerate() {
                // By the cell's id, not the row's place: a unit may have been cut short or done
                // twice.
                if let Some(number) = numbers.get(&id) {
                    places[(number - cells.first) as usize] = Some((batches.len(), row));
                }
            }
            batches.push(batch);
        }
        // A file was taken away or cannot be read: its cells are run again.
        if places.contains(&None) {
            self.done.insert(partition, places.iter().map(Option::is_some).collect());
            return Ok(());
        }
        let places: Vec<(usize, usize)> = places.into_iter().flatten().collect();
        // In the order of the plan, so that the file has the same bytes whatever ran its cells.
        let table = interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &places);
        let table = table.map_err(LabError::failed)?;
        // The part and the manifest first: if we are killed here, work files are only left over.
        self.write_part(partition, cells, &table)?;
        files.iter().for_each(|file| forget(file));
        self.done.remove(&partition);
        if self.manifest.complete {
            // Other files in there are no results of ours: a folder that is not empty stays.
            let _ = fs::remove_dir(self.work());
        }
        Ok(())
    }

    fn write_part(
        &mut self,
        partition: u64,
        cells: CellRange,
        table: &RecordBatch,
    ) -> Result<(), LabError> {
        let file = format!("part-{partition:05}.parquet");
        let bytes = write_run_table(Vec::new(), table).map_err(LabError::failed)?;
        write_atomically(&self.root.join(&file), &bytes).map_err(LabError::failed)?;
        // The column is null where a run has figures.
        let errors = table.column_by_name("error").map_or(0, |of| of.len() - of.null_count());
        let part = SweepPart {
            file,
            first: cells.first,
            cells: cells.count(),
            errors: errors as u64,
            blake3: blake3::hash(&bytes).to_hex().to_string(),
        };
        self.manifest.parts.push(part);
        // Parts are finished in any order, but the manifest is the same whatever the order was.
        self.manifest.parts.sort_by_key(|part| part.first);
        self.manifest.complete = self.is_complete();
        self.write_manifest()
    }

    fn write_manifest(&self) -> Result<(), LabError> {
        let text = indented(&self.manifest);
        write_atomically(&self.root.join(MANIFEST), text.as_bytes()).map_err(LabError::failed)
    }
}

/// Returns all results in the folder of a sweep that is complete, in the order of the plan.
///
/// # Errors
/// When it has no manifest, is not complete, or a file cannot be read.
pub fn read_results(root: &Path) -> Result<RecordBatch, LabError> {
    let manifest = read_manifest(root)?.filter(|manifest| manifest.complete);
    let manifest = manifest.ok_or_else(|| {
        LabError::Invalid(format!("{}: no sweep is complete here", root.display()))
    })?;
    let read = |part: &SweepPart| read_table(&root.join(&part.file));
    let tables = manifest.parts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let schema = tables.first().map(RecordBatch::schema);
    let schema = schema.ok_or_else(|| cannot(root, "a manifest without files"))?;
    concat_batches(&schema, &tables).map_err(|error| cannot(root, error))
}

fn fresh_manifest(sweep: &Sweep) -> SweepManifest {
    let file = |(name, file): (&String, &super::files::SweepFile)| {
        (name.clone(), SweepManifestFile { blake3: file.hash.clone(), bytes: file.length })
    };
    SweepManifest {
        schema: SWEEP_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sweep: sweep.identity(),
        plan: sweep.plan().document().clone(),
        files: sweep.files().files().iter().map(file).collect(),
        cells: sweep.cells(),
        complete: false,
        parts: Vec::new(),
    }
}

/// Returns what is found where it is this sweep's, and says what differs where it is not.
fn continued(
    root: &Path,
    found: SweepManifest,
    fresh: &SweepManifest,
) -> Result<SweepManifest, LabError> {
    if found.sweep == fresh.sweep {
        return Ok(found);
    }
    let field = || {
        let keys = found.plan.keys().chain(fresh.plan.keys());
        keys.into_iter().find(|key| found.plan.get(*key) != fresh.plan.get(*key))
    };
    let file = || {
        let names = found.files.keys().chain(fresh.files.keys());
        names.into_iter().find(|name| found.files.get(*name) != fresh.files.get(*name))
    };
    // The version first: it changes the id of every cell, whatever else differs.
    let why = if found.version != fresh.version {
        format!("was made by cellpace {}, this is {}", found.version, fresh.version)
    } else if let Some(field) = field() {
        format!("has the sweep of another plan, which differs in `{field}`")
    } else if let Some(file) = file() {
        format!("was made while `{file}` had other contents")
    } else {
        "has another sweep".to_owned()
    };
    Err(LabError::Invalid(format!("{}: {why}; name another folder", root.display())))
}

fn read_manifest(root: &Path) -> Result<Option<SweepManifest>, LabError> {
    let path = root.join(MANIFEST);
    match fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(&path, error)),
        // Before it is read into memory: anyone may have made the folder.
        Ok(facts) if facts.len() > MAX_MANIFEST_BYTES => {
            return Err(LabError::Invalid(format!("{}: is no manifest: too long", path.display())));
        }
        Ok(_) => {}
    }
    let text = fs::read(&path).map_err(|error| cannot(&path, error))?;
    let manifest: SweepManifest = serde_json::from_slice(&text).map_err(|error| {
        LabError::Invalid(format!("{}: is no manifest of a sweep: {error}", path.display()))
    })?;
    if manifest.schema != SWEEP_SCHEMA {
        return Err(LabError::Invalid(format!(
            "{}: has the schema `{}`, this program knows {SWEEP_SCHEMA}",
            path.display(),
            manifest.schema
        )));
    }
    Ok(Some(manifest))
}

/// Keeps other processes out as long as the folder is open.
fn lock(root: &Path) -> Result<File, LabError> {
    // The folder itself: no lock file stays behind, and the system frees it when the process is
    // killed.
    let folder = File::open(root).map_err(|error| cannot(root, error))?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(LabError::Failed(format!(
            "{}: another process works on this sweep",
            root.display()
        ))),
        // A file system without locks: another process may use the folder, or none.
        Ok(()) | Err(_) => Ok(folder),
    }
}

/// Whether the folder has files of other programs.
fn is_used(root: &Path) -> std::io::Result<bool> {
    match fs::read_dir(root) {
        Ok(entries) => {
            for entry in entries {
                // The work folder alone is ours: a run was killed before it wrote the manifest.
                if entry?.file_name() != WORK {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn unit_name(cells: CellRange) -> String {
    format!("{:09}-{:09}.parquet", cells.first, cells.end)
}

/// The number of the first cell of a work file.
fn first_of(name: &str) -> Option<u64> {
    let (first, end) = name.strip_suffix(".parquet")?.split_once('-')?;
    // Only to tell names of work files from others: a unit may have ended before this cell, and its
    // rows say where.
    end.parse::<u64>().ok()?;
    first.parse().ok()
}

/// The numbers of cells by their ids.
fn numbers(sweep: &Sweep, cells: CellRange) -> HashMap<String, u64> {
    (cells.first..cells.end).map(|number| (sweep.id(number), number)).collect()
}

/// A file that cannot be removed is found and left out again next time.
fn forget(file: &Path) {
    let _ = fs::remove_file(file);
}

/// BLAKE3 of a file; `None` where it cannot be read.
fn hash_of(file: &Path) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(file).ok()?).ok()?;
    Some(hasher.finalize().to_hex().to_string())
}

fn cannot(path: &Path, error: impl std::fmt::Display) -> LabError {
    LabError::Failed(format!("{}: {error}", path.display()))
}

fn read_ids(path: &Path) -> Result<Vec<String>, LabError> {
    let file = File::open(path).map_err(|error| cannot(path, error))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file);
    let reader = reader.map_err(|error| cannot(path, error))?;
    // No other column is read: a large folder has many work files, and each row many figures.
    let mask = ProjectionMask::columns(reader.parquet_schema(), ["cell"]);
    let reader = reader.with_projection(mask).build().map_err(|error| cannot(path, error))?;
    let mut ids = Vec::new();
    for batch in reader {
        ids.extend(ids_of(&batch.map_err(|error| cannot(path, error))?)?);
    }
    Ok(ids)
}

fn ids_of(batch: &RecordBatch) -> Result<Vec<String>, LabError> {
    let column = batch.column_by_name("cell").and_then(|column| column.as_string_opt::<i32>());
    let column = column.ok_or_else(|| LabError::failed("a file without the column `cell`"))?;
    Ok(column.iter().map(|id| id.unwrap_or_default().to_owned()).collect())
}

fn read_table(path: &Path) -> Result<RecordBatch, LabError> {
    let file = File::open(path).map_err(|error| cannot(path, error))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file);
    let reader = reader
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .map_err(|error| cannot(path, error))?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|error| cannot(path, error))?;
    concat_batches(&schema, &batches).map_err(|error| cannot(path, error))
}
