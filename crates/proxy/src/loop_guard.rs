//! Finds connections that a proxy has made to itself, by whatever way they came back: a name, a
//! redirection, another proxy on this machine that keeps the address.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The addresses of both kinds of connections that are open: an address that is a client's and one
/// of ours at once is that of a connection to ourselves.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard(Mutex<OpenAddresses>);

#[derive(Debug, Default)]
struct OpenAddresses {
    clients: HashSet<SocketAddr>,
    ours: HashSet<SocketAddr>,
}

/// Which kind of connection an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressOwner {
    /// It connected to us.
    Client,
    /// We connected from it.
    Proxy,
}

/// An address of an open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct GuardedAddress {
    guard: Arc<LoopGuard>,
    owner: AddressOwner,
    address: SocketAddr,
}

impl LoopGuard {
    /// Notes an address; `None` if the connection leads from this proxy to itself.
    pub(crate) fn note(
        self: &Arc<Self>,
        owner: AddressOwner,
        address: SocketAddr,
    ) -> Option<GuardedAddress> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let mut open = self.lock();
        let others = if owner == AddressOwner::Client { &open.ours } else { &open.clients };
        if others.contains(&address) {
            return None;
        }
        open.of(owner).insert(address);
        Some(GuardedAddress { guard: self.clone(), owner, address })
    }

    fn lock(&self) -> MutexGuard<'_, OpenAddresses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenAddresses {
    fn of(&mut self, owner: AddressOwner) -> &mut HashSet<SocketAddr> {
        match owner {
            AddressOwner::Client => &mut self.clients,
            AddressOwner::Proxy => &mut self.ours,
        }
    }
}

impl Drop for GuardedAddress {
    fn drop(&mut self) {
        self.guard.lock().of(self.owner).remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_to_ourselves_is_found_from_whichever_end_is_noted_first() {
        let guard = Arc::new(LoopGuard::default());
        let address = "192.0.2.1:40000".parse().unwrap();
        let ours = guard.note(AddressOwner::Proxy, address);
        assert!(ours.is_some());
        assert!(guard.note(AddressOwner::Client, address).is_none());
        assert!(guard.note(AddressOwner::Client, "192.0.2.1:40001".parse().unwrap()).is_some());
        drop(ours);
        let client = guard.note(AddressOwner::Client, address);
        assert!(client.is_some(), "the port is used again");
        assert!(guard.note(AddressOwner::Proxy, address).is_none());
    }
}
