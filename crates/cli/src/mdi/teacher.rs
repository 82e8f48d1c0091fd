//! Runs of a teacher that is watched.

use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::Span;
use cellpace_cc::{Chains, Controller, ControllerSpec, EpochLog, Setup};
use cellpace_lab::{RunClock, run_all, simulate, threads};
use cellpace_mdi::{Chain, MOST_ROWS, MOST_USERS, Watched};
use cellpace_sim::{FlowSpec, Observer, Scenario};

use crate::error::Failure;
use crate::output::complain;
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted};

/// One run: so many flows of the teacher over one path.
#[derive(Debug)]
pub(super) struct Lesson {
    /// The trace as shown.
    trace: String,
    users: u32,
    scenario: Scenario,
}

impl Lesson {
    /// `users` bulk flows of `teacher` over `path`, all from the start on, as in section 6.1 of
    /// the paper.
    pub(super) fn new(
        trace: String,
        path: &Scenario,
        teacher: &ControllerSpec,
        users: u32,
    ) -> Result<Self, Failure> {
        let scenario = Scenario {
            flows: vec![FlowSpec::bulk(teacher.clone().into()); users as usize],
            skip: Span::ZERO,
            // Nobody looks at the series.
            bin: Span::from_secs(1),
            ..path.clone()
        };
        scenario.check().map_err(Failure::usage)?;
        Ok(Self { trace, users, scenario })
    }

    /// Epochs that it logs at most.
    fn samples(&self) -> u64 {
        let epochs = self.scenario.duration.as_nanos() / EpochLog::EPOCH.as_nanos();
        epochs * u64::from(self.users)
    }
}

/// The numbers of users of `--users`.
pub(super) fn check_users(users: &[u32]) -> Result<(), Failure> {
    let wrong = |why: String| Err(Failure::usage(format!("--users: {why}")));
    if let Some(users) = users.iter().find(|users| !(1..=MOST_USERS).contains(*users)) {
        return wrong(format!("{users} users; allowed: 1 to {MOST_USERS}"));
    }
    match (1..users.len()).find(|index| users[..*index].contains(&users[*index])) {
        Some(index) => wrong(format!("{} is given twice", users[index])),
        None => Ok(()),
    }
}

/// Watches the teacher in all lessons. `None`: Ctrl-C was pressed, and that was said.
///
/// Each run depends on nothing but its own scenario, so the samples and their order are the same
/// whatever the number of jobs.
pub(super) fn watch(
    lessons: &[Lesson],
    jobs: Option<u16>,
) -> Result<Option<Vec<Watched>>, Failure> {
    if lessons.is_empty() {
        return Ok(Some(Vec::new()));
    }
    check_size(lessons)?;
    end_cleanly_on_ctrl_c();
    let total = lessons.iter().map(|lesson| lesson.scenario.duration.as_nanos()).sum();
    let mut progress = Progress::new(lessons.len(), "runs");
    let work = |index: usize, clock: &RunClock| attend(&lessons[index], clock);
    let total = Span::from_nanos(total);
    let done = run_all(lessons.len(), threads(jobs), total, work, &mut progress)?;
    progress.finish();
    let missing = done.iter().filter(|run| run.is_none()).count();
    if missing > 0 {
        let all = done.len();
        if interrupted() {
            complain(&format!(
                "interrupted; {missing} of {all} runs are missing, nothing is saved"
            ));
            return Ok(None);
        }
        return Err(Failure::failed(format!("{missing} of {all} runs ended in the middle")));
    }
    let chains = done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    let watched = lessons.iter().zip(chains);
    Ok(Some(watched.map(|(lesson, chains)| Watched { users: lesson.users, chains }).collect()))
}

/// Refuses more samples than fit into the memory of one machine: 12 bytes each, and 8 more while
/// they are counted.
fn check_size(lessons: &[Lesson]) -> Result<(), Failure> {
    let samples: u64 = lessons.iter().map(Lesson::samples).fold(0, u64::saturating_add);
    if samples <= MOST_ROWS {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{samples} samples are more than the {MOST_ROWS} that are held in memory; train in parts \
         and merge them (--like)"
    )))
}

fn attend(lesson: &Lesson, clock: &RunClock) -> Option<Result<Vec<Chain>, Failure>> {
    let mut watch = Watch { chains: Chains::default() };
    let outcome = simulate(&lesson.scenario, &mut watch, clock).map_err(|error| {
        let (trace, users) = (&lesson.trace, lesson.users);
        Failure::failed(format!("{trace}, {users} users: {error}"))
    });
    let outcome = outcome.transpose()?;
    let mut chains = watch.chains.lock().unwrap_or_else(PoisonError::into_inner);
    Some(outcome.map(|_| std::mem::take(&mut *chains)))
}

/// Puts a log around every controller.
struct Watch {
    chains: Arc<Mutex<Vec<Chain>>>,
}

impl Observer for Watch {
    fn on_connect(
        &mut self,
        _flow: u32,
        controller: Box<dyn Controller>,
        setup: &Setup,
    ) -> Box<dyn Controller> {
        Box::new(EpochLog::new(controller, setup, EpochLog::EPOCH, Arc::clone(&self.chains)))
    }
}
