//! What is kept of each client: how many connections it has, and how often it failed to say who it
//! is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cellpace_base::quota::ClientNetwork;

/// Number of wrong passwords after which no password of the client is checked any more.
const MAX_FAILURES: u32 = 10;
/// Time after the last failure at which the failures are forgotten.
const REFUSED: Duration = Duration::from_secs(60);
/// Maximum number of clients without a connection whose failures are remembered.
const MAX_REMEMBERED: usize = 4096;

/// All clients, each a network.
#[derive(Debug)]
pub(crate) struct ProxyClients {
    /// Maximum number of concurrent connections of one client; the greatest number where there is none.
    most: AtomicUsize,
    known: Mutex<HashMap<ClientNetwork, ProxyClient>>,
}

#[derive(Debug, Default)]
struct ProxyClient {
    open: usize,
    failures: u32,
    failed_at: Option<Instant>,
}

impl ProxyClient {
    fn forget_old_failures(&mut self, now: Instant) {
        if self.failed_at.is_some_and(|at| now.saturating_duration_since(at) >= REFUSED) {
            (self.failures, self.failed_at) = (0, None);
        }
    }
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    clients: Arc<ProxyClients>,
    client: ClientNetwork,
}

impl ProxyClients {
    pub(crate) fn new(most: Option<usize>) -> Arc<Self> {
        let most = AtomicUsize::new(most.unwrap_or(usize::MAX));
        Arc::new(Self { most, known: Mutex::default() })
    }

    /// From now on a client may have so many; those that are open stay.
    pub(crate) fn limit(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Returns a place for one more connection; `None` when the client has the maximum number.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr) -> Option<ConnectionPlace> {
        let client = ClientNetwork::of_ip(from);
        let mut known = self.lock();
        let found = known.entry(client).or_default();
        if found.open >= self.most.load(Ordering::Relaxed) {
            return None;
        }
        found.open += 1;
        Some(ConnectionPlace { clients: self.clone(), client })
    }

    /// The client sent a wrong password.
    pub(crate) fn note_failure(&self, from: IpAddr, now: Instant) {
        let mut known = self.lock();
        if known.len() >= MAX_REMEMBERED {
            // Those that have nothing open are remembered for their failures only.
            known.retain(|_, client| {
                client.forget_old_failures(now);
                client.open > 0 || client.failures > 0
            });
            if known.values().filter(|client| client.open == 0).count() >= MAX_REMEMBERED {
                known.retain(|_, client| client.open > 0);
            }
        }
        let client = known.entry(ClientNetwork::of_ip(from)).or_default();
        client.forget_old_failures(now);
        client.failures = client.failures.saturating_add(1);
        client.failed_at = Some(now);
    }

    /// Whether the client has recently sent too many wrong passwords.
    pub(crate) fn is_refused(&self, from: IpAddr, now: Instant) -> bool {
        let mut known = self.lock();
        let Some(client) = known.get_mut(&ClientNetwork::of_ip(from)) else { return false };
        client.forget_old_failures(now);
        client.failures >= MAX_FAILURES
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientNetwork, ProxyClient>> {
        // Nothing that panics happens while it is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut known = self.clients.lock();
        let Some(client) = known.get_mut(&self.client) else { return };
        client.open -= 1;
        client.forget_old_failures(Instant::now());
        if client.open == 0 && client.failures == 0 {
            known.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_has_so_many_places_and_another_its_own() {
        let clients = ProxyClients::new(Some(2));
        let one = clients.take(ip("2001:db8::1")).unwrap();
        let _two = clients.take(ip("2001:db8::ffff:1")).unwrap();
        assert!(clients.take(ip("2001:db8::2")).is_none(), "the same 64 bits");
        assert!(clients.take(ip("2001:db8:0:1::1")).is_some());
        assert!(clients.take(ip("192.0.2.1")).is_some());
        drop(one);
        let again = clients.take(ip("2001:db8::2"));
        assert!(again.is_some());
        drop((again, _two));
        assert!(clients.lock().is_empty(), "who is gone is forgotten");
        let endless = ProxyClients::new(None);
        let places: Vec<_> = (0..5000).map(|_| endless.take(ip("::ffff:192.0.2.1"))).collect();
        assert!(places.iter().all(Option::is_some));
        assert_eq!(endless.lock().len(), 1);
    }

    #[test]
    fn wrong_passwords_are_counted_for_a_while() {
        let clients = ProxyClients::new(None);
        let (who, now) = (ip("192.0.2.1"), Instant::now());
        for _ in 0..MAX_FAILURES {
            assert!(!clients.is_refused(who, now));
            clients.note_failure(who, now);
        }
        assert!(clients.is_refused(who, now) && !clients.is_refused(ip("192.0.2.2"), now));
        // Also when its connections are gone meanwhile.
        drop(clients.take(who));
        assert!(clients.is_refused(who, now));
        assert!(!clients.is_refused(who, now + REFUSED));
    }

    #[test]
    fn many_who_fail_do_not_fill_the_memory() {
        let clients = ProxyClients::new(None);
        for number in 0..3 * MAX_REMEMBERED as u32 {
            clients.note_failure(IpAddr::V4(number.into()), Instant::now());
        }
        assert!(clients.lock().len() <= 2 * MAX_REMEMBERED);
    }
}
