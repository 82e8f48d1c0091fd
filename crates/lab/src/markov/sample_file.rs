//! Samples of flows in real time, for a Markov model to learn from.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cellpace_cc::ControllerSpec;
use cellpace_mdi::{Chain, SAMPLES_HEADER, write_chain};

use super::epoch_log::{ChainSink, EpochLog};

/// A file of samples that flows write while they go on, in the form that `mdi convert`
/// reads: whole rows, each at most some ten seconds late.
#[derive(Clone)]
pub struct SampleFile {
    file: Arc<Mutex<OpenSampleFile>>,
    flows: Arc<AtomicU64>,
}

struct OpenSampleFile {
    file: File,
    users: u32,
    /// The number of the next chain.
    next: u64,
    /// The flow that wrote last: it goes on with its chain.
    last: Option<u64>,
    /// Told once that the file cannot be written any more.
    on_error: fn(&str),
    has_failed: bool,
}

/// Samples of a chain that are written together: some 50 kB, 10 s of a flow.
const PART: usize = 2000;

impl SampleFile {
    /// Creates the file and writes its first line. `users` is the number of flows that share the
    /// bottleneck, 0 where it is unknown. `on_error` gets the reason when the file cannot be
    /// written any more; the flows go on.
    ///
    /// # Errors
    /// When the file cannot be created or written.
    pub fn create(path: &Path, users: u32, on_error: fn(&str)) -> io::Result<Self> {
        let mut file = File::create(path)?;
        writeln!(file, "{SAMPLES_HEADER}")?;
        let file = OpenSampleFile { file, users, next: 0, last: None, on_error, has_failed: false };
        Ok(Self { file: Arc::new(Mutex::new(file)), flows: Arc::default() })
    }

    /// The same controller, whose connections leave a sample per epoch of 5 ms in this file.
    pub fn watching(&self, cc: &ControllerSpec) -> ControllerSpec {
        let (file, flows) = (Arc::clone(&self.file), Arc::clone(&self.flows));
        cc.wrapped(move |controller, setup| {
            // A number for each connection, by which the file sees whether a chain goes on.
            let flow = flows.fetch_add(1, Ordering::Relaxed);
            let sink = FlowSamples { file: Arc::clone(&file), flow };
            Box::new(EpochLog::new(controller, setup, sink))
        })
    }
}

/// Where one flow's samples go.
struct FlowSamples {
    file: Arc<Mutex<OpenSampleFile>>,
    flow: u64,
}

impl ChainSink for FlowSamples {
    fn part(&self) -> Option<usize> {
        Some(PART)
    }

    fn take(&mut self, chain: Chain, is_over: bool) {
        // A thread that panicked left whole rows.
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(self.flow, &chain, is_over);
    }
}

impl OpenSampleFile {
    /// Rows of a chain stand together, so a chain goes on only if no other flow wrote meanwhile;
    /// otherwise the part is a chain of its own.
    fn write(&mut self, flow: u64, chain: &Chain, is_over: bool) {
        if self.has_failed {
            return;
        }
        // Another flow wrote in between, or the chain before is over: a new chain begins.
        if self.last != Some(flow) {
            self.next += 1;
        }
        let mut text = Vec::new();
        let written = write_chain(&mut text, self.next - 1, self.users, chain)
            // Whole rows in one call, so that a program that is killed leaves no torn one.
            .and_then(|()| self.file.write_all(&text));
        self.last = (!is_over).then_some(flow);
        if let Err(error) = written {
            // Said once: on a full disk it would be said every ten seconds for each flow.
            self.has_failed = true;
            (self.on_error)(&format!("--mdi-samples: {error}; no more samples are written"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_mdi::{Sample, read_samples};

    fn chain(windows: std::ops::Range<u32>) -> Chain {
        windows.map(|w| Sample { delay_us: 1000 * w, window: w << 16, sent: 1 }).collect()
    }

    #[test]
    fn a_chain_goes_on_unless_another_flow_wrote_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.csv");
        let file = SampleFile::create(&path, 2, |_| {}).unwrap();
        let mut flows = [0, 1].map(|flow| FlowSamples { file: Arc::clone(&file.file), flow });
        flows[0].take(chain(1..3), false);
        flows[0].take(chain(3..5), false);
        flows[1].take(chain(1..2), false);
        flows[0].take(chain(5..6), true);
        flows[0].take(chain(6..7), false);
        let read = read_samples(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read[0].users, 2);
        let lengths: Vec<usize> = read[0].chains.iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, 1, 1, 1]);
        assert_eq!(read[0].chains[0], chain(1..5));
    }
}
