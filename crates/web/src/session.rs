//! One instance of the module: the files it was given, and the run that is going on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::rc::Rc;

use cellpace_base::Span;
use cellpace_cc::{ControllerInfo, ControllerSpec, register};
use cellpace_measure::{Figures, Series};
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::Simulation;
use serde::Serialize;

use crate::describe::{self, describe};
use crate::{ControllerChoice, Query, QueryError};

/// Bytes of all files together: an hour of a fast link is a tenth of it.
const MAX_FILE_BYTES: usize = 64 << 20;

type Contents = Rc<RefCell<BTreeMap<String, Rc<[u8]>>>>;

/// Answers the page. A run is begun and then advanced in steps, so that whoever drives it can show
/// how far it is and drop it at any time.
pub struct Session {
    contents: Contents,
    files: TraceFiles<'static>,
    simulation: Option<(Simulation, Span)>,
}

/// What came out of a request.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// The request was refused.
    Refused(QueryError),
    /// The run goes on.
    Begun {
        /// How much of the run is done, from 0 to 1.
        share: f64,
    },
    /// The run is over.
    Finished(Box<Run>),
}

/// What came out of a run.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The figures, the same as in the JSON of `cellpace compare`.
    pub figures: Figures,
    /// Figures over time. What is not a number is `null`.
    pub series: Series,
}

impl Default for Session {
    fn default() -> Self {
        // As in the commands; another session may have been first.
        static PLUGIN: [ControllerInfo; 1] = [cellpace_plugin::PLUGIN];
        let _ = register(&PLUGIN);
        let contents = Contents::default();
        Self { files: open(&contents), contents, simulation: None }
    }
}

fn open(contents: &Contents) -> TraceFiles<'static> {
    let contents = Rc::clone(contents);
    TraceFiles::new(move |name| match contents.borrow().get(name) {
        Some(bytes) => Ok(Box::new(Cursor::new(Rc::clone(bytes)))),
        None => Err(io::ErrorKind::NotFound.into()),
    })
}

impl Session {
    /// Describes controllers, queues, traces and defaults, as JSON.
    pub fn describe(&self) -> String {
        describe()
    }

    /// Keeps a file that queries may name, in place of one with the same name.
    ///
    /// # Errors
    /// When all files together would be larger than 64 MB.
    pub fn store(&mut self, name: &str, bytes: &[u8]) -> Result<(), QueryError> {
        let mut contents = self.contents.borrow_mut();
        let others = contents.iter().filter(|(other, _)| *other != name);
        let total = others.map(|(_, bytes)| bytes.len()).sum::<usize>() + bytes.len();
        if total > MAX_FILE_BYTES {
            return Err(QueryError::of_all(format!(
                "{name}: files of {} MB are more than the {} MB that the page takes",
                total >> 20,
                MAX_FILE_BYTES >> 20
            )));
        }
        contents.insert(name.to_owned(), bytes.into());
        drop(contents);
        // What was read of the old file is forgotten.
        self.files = open(&self.contents);
        Ok(())
    }

    /// Keeps a module, and describes the controller `plugin:NAME` that queries may then name.
    ///
    /// # Errors
    /// When it does not run, or all files together would be larger than 64 MB.
    pub fn store_module(
        &mut self,
        name: &str,
        bytes: &[u8],
    ) -> Result<ControllerChoice, QueryError> {
        let spec = format!("plugin:{name}");
        let module = ControllerSpec::parse(&spec, &mut |_| Ok(bytes.to_vec()));
        let module = module.map_err(QueryError::of_all)?;
        self.store(name, bytes)?;
        Ok(describe::module(&module))
    }

    /// Begins the run that a query in JSON describes, in place of the one that is going on.
    pub fn begin(&mut self, query: &[u8]) -> Answer {
        self.simulation = None;
        match self.simulation(query) {
            Ok(simulation) => {
                self.simulation = Some(simulation);
                Answer::Begun { share: 0.0 }
            }
            Err(error) => Answer::Refused(error),
        }
    }

    fn simulation(&mut self, query: &[u8]) -> Result<(Simulation, Span), QueryError> {
        let query: Query = serde_json::from_slice(query).map_err(QueryError::of_all)?;
        let scenario = query.scenario(&mut self.files)?;
        let simulation = Simulation::new(&scenario).map_err(QueryError::of_all)?;
        Ok((simulation, scenario.duration))
    }

    /// Simulates the next part of the run.
    pub fn advance(&mut self, step: Span) -> Answer {
        let Some((mut simulation, duration)) = self.simulation.take() else {
            return Answer::Refused(QueryError::of_all("no run has begun"));
        };
        if let Err(error) = simulation.advance(simulation.now() + step) {
            return Answer::Refused(QueryError::of_all(error));
        }
        if !simulation.is_over() {
            let passed = simulation.now().as_secs_f64();
            self.simulation = Some((simulation, duration));
            return Answer::Begun { share: passed / duration.as_secs_f64() };
        }
        match simulation.finish() {
            Ok(outcome) => {
                let (figures, series) = (outcome.figures, outcome.series);
                Answer::Finished(Box::new(Run { figures, series }))
            }
            Err(error) => Answer::Refused(QueryError::of_all(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(session: &mut Session, query: &str) -> Result<Box<Run>, QueryError> {
        let mut answer = session.begin(query.as_bytes());
        loop {
            match answer {
                Answer::Begun { .. } => answer = session.advance(Span::from_secs(1)),
                Answer::Finished(run) => return Ok(run),
                Answer::Refused(error) => return Err(error),
            }
        }
    }

    #[test]
    fn a_run_in_steps_is_the_run_of_the_simulator() {
        let query: Query = serde_json::from_str(r#"{"cc":"copa","duration":"9s"}"#).unwrap();
        let scenario = query.scenario(&mut TraceFiles::none()).unwrap();
        let expected = cellpace_sim::run(&scenario).unwrap().figures;
        let run = finished(&mut Session::default(), r#"{"cc":"copa","duration":"9s"}"#).unwrap();
        assert_eq!(run.figures, expected);
        assert_eq!(run.series.throughput_mbps.len(), 90);
    }

    #[test]
    fn files_are_found_by_name_and_replaced() {
        let mut session = Session::default();
        let query = r#"{"cc":"cubic","trace":"./drive","duration":"4s"}"#;
        assert!(finished(&mut session, query).unwrap_err().error.contains("./drive"));
        session.store("./drive", b"1\n").unwrap();
        let fast = finished(&mut session, query).unwrap().figures.capacity_mbps;
        session.store("./drive", b"2\n").unwrap();
        let slow = finished(&mut session, query).unwrap().figures.capacity_mbps;
        assert!((fast - 12.0).abs() < 0.1 && (slow - 6.0).abs() < 0.1, "{fast} {slow}");
        session.store("./drive", b"1\nx\n").unwrap();
        let error = finished(&mut session, query).unwrap_err();
        assert_eq!(error.field, "trace");
        assert!(error.error.contains("drive") && error.error.contains('2'), "{error:?}");
    }

    #[test]
    fn files_have_a_bound() {
        let mut session = Session::default();
        session.store("a", &vec![b'1'; MAX_FILE_BYTES]).unwrap();
        assert!(session.store("b", b"1\n").unwrap_err().error.contains("64 MB"));
        session.store("a", b"1\n").unwrap();
        session.store("b", b"1\n").unwrap();
    }

    #[test]
    fn what_is_no_run_is_refused() {
        let mut session = Session::default();
        for query in ["", "[]", "{", r#"{"cc":"cubic","speed":1}"#, "\u{0}"] {
            assert!(matches!(session.begin(query.as_bytes()), Answer::Refused(_)), "{query}");
        }
        assert!(matches!(session.begin(b"\xff\xfe"), Answer::Refused(_)));
        assert!(matches!(session.advance(Span::from_secs(1)), Answer::Refused(_)));
    }
}
