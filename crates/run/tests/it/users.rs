//! The control socket, with clients of other users.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::client::{ADOPT, NOBODY, as_user, ask, connection, dial, is_root};
use cellpace_control::message::AskOutcome;
use cellpace_run::{Broker, BrokerConfig};
use cellpace_tcp::{ControlOptions, RelayEngine};

/// Far longer than any test: who has a place keeps it.
const PATIENCE: Duration = Duration::from_secs(600);
const PLACES: usize = 8;
const SOON: Duration = Duration::from_secs(5);

fn broker() -> Broker {
    let mut config = BrokerConfig::new(ControlOptions::new("cubic".parse().unwrap()));
    (config.most_clients, config.patience) = (PLACES, PATIENCE);
    Broker::start(&RelayEngine::new(), &config, |_| {}).unwrap()
}

/// Clients that send nothing, many more than there are places.
fn silent(broker: &Broker) -> Vec<OwnedFd> {
    (0..50 * PLACES).map(|_| dial(broker.name())).collect()
}

/// Has a connection taken over.
fn is_served(broker: &Broker) -> bool {
    let started = Instant::now();
    let (ours, _peer) = connection();
    let answer = ask(broker.name(), broker.token(), ADOPT, &[ours.as_fd()]);
    answer.is_some_and(|(answer, _)| answer.outcome == AskOutcome::Done) && started.elapsed() < SOON
}

#[test]
fn strangers_have_no_place() {
    if !is_root() {
        return;
    }
    let broker = as_user(NOBODY, broker);
    let strangers = silent(&broker);
    assert!(as_user(NOBODY, || is_served(&broker)));
    for stranger in &strangers {
        let end = rustix::io::read(stranger, &mut [0; 8]);
        assert!(matches!(end, Ok(0) | Err(rustix::io::Errno::CONNRESET)), "{end:?}");
    }
}

#[test]
fn one_user_cannot_keep_others_from_a_launcher_of_root() {
    if !is_root() {
        return;
    }
    let broker = broker();
    let silent = as_user(NOBODY, || silent(&broker));
    for user in [0, 1] {
        assert!(as_user(user, || is_served(&broker)), "user {user}");
    }
    drop(silent);
}

#[test]
fn many_users_cannot_keep_others_from_a_launcher_of_root() {
    if !is_root() {
        return;
    }
    let broker = broker();
    let one = |uid: u32| as_user(uid, || dial(broker.name()));
    let silent: Vec<OwnedFd> = (0..4 * PLACES as u32).map(|index| one(NOBODY - index)).collect();
    for user in [0, 1] {
        assert!(as_user(user, || is_served(&broker)), "user {user}");
    }
    drop(silent);
}
