//! Runs of a teacher that is watched.

use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::{Span, Time};
use cellpace_cc::{Chains, Controller, ControllerSpec, EpochLog, Setup};
use cellpace_lab::{VirtualTime, run_all, threads};
use cellpace_mdi::{Chain, MOST_ROWS, MOST_USERS, Watched};
use cellpace_path::Record;
use cellpace_sim::{FlowSpec, Observer, Scenario, run_observed};

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
    lessons: Vec<Lesson>,
    jobs: Option<u16>,
) -> Result<Option<Vec<Watched>>, Failure> {
    if lessons.is_empty() {
        return Ok(Some(Vec::new()));
    }
    check_size(&lessons)?;
    end_cleanly_on_ctrl_c();
    let all_ms: u64 = lessons.iter().map(|lesson| millis(lesson.scenario.duration)).sum();
    let simulated = Arc::new(VirtualTime::default());
    let (lessons, passed) = (Arc::new(lessons), Arc::clone(&simulated));
    let done = {
        let (lessons, count) = (Arc::clone(&lessons), lessons.len());
        let share = || simulated.ms() as f64 / all_ms.max(1) as f64;
        let mut progress = Progress::new(lessons.len(), "runs");
        let work = move |index: usize| attend(&lessons[index], &passed);
        let done = run_all(count, threads(jobs), work, share, &mut progress)?;
        progress.finish();
        done
    };
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

fn attend(lesson: &Lesson, simulated: &VirtualTime) -> Result<Vec<Chain>, Failure> {
    let mut watch = Watch { chains: Chains::default(), simulated, told: Time::ZERO };
    run_observed(&lesson.scenario, &mut watch).map_err(|error| {
        let (trace, users) = (&lesson.trace, lesson.users);
        Failure::failed(format!("{trace}, {users} users: {error}"))
    })?;
    let chains = Arc::clone(&watch.chains);
    watch.tell(Time::ZERO + lesson.scenario.duration);
    let mut chains = chains.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *chains))
}

/// Puts a log around every controller, and says now and then how far the run is.
struct Watch<'a> {
    chains: Arc<Mutex<Vec<Chain>>>,
    simulated: &'a VirtualTime,
    told: Time,
}

impl Watch<'_> {
    const TELL_EVERY: Span = Span::from_secs(3);

    fn tell(&mut self, now: Time) {
        self.simulated.add(millis(now - self.told));
        self.told = now.max(self.told);
    }
}

impl Observer for Watch<'_> {
    fn on_record(&mut self, record: &Record) {
        if record.packet.departed_at - self.told >= Self::TELL_EVERY {
            self.tell(record.packet.departed_at);
        }
    }

    fn on_connect(
        &mut self,
        _flow: u32,
        controller: Box<dyn Controller>,
        setup: &Setup,
    ) -> Box<dyn Controller> {
        Box::new(EpochLog::new(controller, setup, EpochLog::EPOCH, Arc::clone(&self.chains)))
    }
}

fn millis(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}
