//! Changing a running link from outside and from inside.
//!
//! Each link listens on an abstract socket of its name in two network namespaces: where it was
//! started, and inside. So from inside a program finds the link that it is in, from outside the
//! links that were started there, and nothing is left behind in any folder. Only the user whose
//! link it is may change it.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cellpace_base::Time;
use cellpace_path::{DuplexSpec, PathError};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Uid, geteuid};

use crate::EmuError;
use crate::forward::{ChangeOrder, ForwardControl};
use crate::observe::LinkChange;
use crate::rests::{LINK, own_name};

/// How the names of the sockets begin; the rest is that of the link.
const PREFIX: &str = "cellpace-link-";
/// The longest request.
const MAX_REQUEST: u64 = 1 << 16;
/// How long either end waits for the other.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a request and changes the link (towards the inside, and back) as it says. Returns the
/// settings as written, or what is wrong.
pub type ReadChange = fn(request: &str, link: &mut DuplexSpec) -> Result<Vec<String>, String>;

/// Listens in the network namespace of the calling thread.
pub(crate) fn listen() -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("{PREFIX}{}", own_name()))?)
}

/// A link that can be changed.
pub(crate) struct ControlledLink {
    /// The link as it is now.
    pub(crate) link: Mutex<DuplexSpec>,
    pub(crate) seed: u64,
    pub(crate) read_change: ReadChange,
    pub(crate) forward: Arc<ForwardControl>,
}

/// Takes requests from now on. The threads end with the process.
pub(crate) fn serve(listeners: Vec<UnixListener>, link: ControlledLink) -> io::Result<()> {
    let link = Arc::new(link);
    for listener in listeners {
        let link = Arc::clone(&link);
        thread::Builder::new().name("control".into()).spawn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => link.answer(stream),
                    // Out of descriptors, most likely.
                    Err(_) => thread::sleep(Duration::from_millis(10)),
                }
            }
        })?;
    }
    Ok(())
}

impl ControlledLink {
    fn answer(&self, mut stream: UnixStream) {
        let answer = match self.take_request(&mut stream) {
            Ok(at) => format!("ok {at:?}\n"),
            Err(why) => format!("{why}\n"),
        };
        // Whoever asked may be gone.
        let _ = stream.write_all(answer.as_bytes());
    }

    fn take_request(&self, stream: &mut UnixStream) -> Result<Time, String> {
        let failed = |error: io::Error| error.to_string();
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        if peer(stream).map_err(failed)? != geteuid() {
            return Err("this link is another user's".to_owned());
        }
        let mut request = String::new();
        (&*stream).take(MAX_REQUEST).read_to_string(&mut request).map_err(failed)?;
        self.change(&request)
    }

    fn change(&self, request: &str) -> Result<Time, String> {
        let text = |error: PathError| error.to_string();
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = link.clone();
        let settings = (self.read_change)(request, &mut new)?;
        let down = new.down.change_from(&link.down, self.seed).map_err(text)?;
        let up = new.up.change_reverse_from(&link.up, self.seed).map_err(text)?;
        let (done, answer) = sync_channel(1);
        let change = LinkChange { at: Time::ZERO, settings, link: new.clone() };
        self.forward.order(ChangeOrder { changes: [down, up], change, done });
        let at = answer.recv_timeout(TIMEOUT).map_err(|_| "the link has ended".to_owned())?;
        *link = new;
        Ok(at)
    }
}

fn peer(stream: &UnixStream) -> io::Result<Uid> {
    Ok(Uid::from_raw(getsockopt(stream, sockopt::PeerCredentials)?.uid()))
}

/// Has a running link make a change: the link that `$CELLPACE_LINK` names, which is the one around
/// this process, else the only link of this user that runs here.
///
/// # Errors
/// When there is no such link, or several, or the link refuses.
pub fn change_running(request: &str) -> Result<(), EmuError> {
    let running = running()?;
    let wanted = std::env::var(LINK).ok().filter(|name| !name.is_empty());
    let mut stream = connect(wanted.as_deref(), &running)?;
    let failed = EmuError::system("asking the link");
    let exchange = || -> io::Result<String> {
        stream.set_read_timeout(Some(TIMEOUT * 2))?;
        stream.write_all(request.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.take(MAX_REQUEST).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = { exchange }().map_err(failed)?;
    match answer.starts_with("ok ") {
        true => Ok(()),
        false => Err(EmuError::Refused { why: answer.trim_end().to_owned() }),
    }
}

/// The links that can be seen from here.
fn running() -> Result<Vec<String>, EmuError> {
    let table =
        fs::read_to_string("/proc/net/unix").map_err(EmuError::system("looking for links"))?;
    let name = |line: &str| Some(line.split_once(&format!("@{PREFIX}"))?.1.to_owned());
    let mut names: Vec<String> = table.lines().filter_map(name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Connects to the link called `wanted`, by its number or its whole name, else to the only one.
fn connect(wanted: Option<&str>, running: &[String]) -> Result<UnixStream, EmuError> {
    let is_meant = |name: &&String| match wanted {
        Some(wanted) => *name == wanted || name.split('-').next() == Some(wanted),
        None => true,
    };
    let own = |name: &String| -> Option<(String, UnixStream)> {
        let address = SocketAddr::from_abstract_name(format!("{PREFIX}{name}")).ok()?;
        let stream = UnixStream::connect_addr(&address).ok()?;
        // Anybody may take a name.
        let is_own = peer(&stream).is_ok_and(|user| user == geteuid());
        is_own.then(|| (name.clone(), stream))
    };
    let mut found: Vec<_> = running.iter().filter(is_meant).filter_map(own).collect();
    match (found.len(), wanted) {
        (0, Some(wanted)) => Err(EmuError::NoSuchLink { name: wanted.to_owned() }),
        (0, None) => Err(EmuError::NoLink),
        (1, _) => Ok(found.remove(0).1),
        _ => {
            let number =
                |(name, _): &(String, UnixStream)| name.split('-').next().map(str::to_owned);
            let numbers: Vec<String> = found.iter().filter_map(number).collect();
            Err(EmuError::SeveralLinks { first: numbers[0].clone(), numbers: numbers.join(", ") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_by_name_and_number() {
        let _listener = listen().unwrap();
        let name = own_name();
        assert!(running().unwrap().contains(&name));
        let number = std::process::id().to_string();
        for wanted in [&name, &number] {
            assert!(connect(Some(wanted), &running().unwrap()).is_ok(), "{wanted}");
        }
        let missing = connect(Some("1"), &["2-3".to_owned()]).unwrap_err();
        assert!(missing.to_string().contains("`1`"), "{missing}");
        assert!(matches!(connect(None, &[]), Err(EmuError::NoLink)));
        let two = [name.clone(), name];
        let several = connect(None, &two).unwrap_err().to_string();
        assert!(several.contains(&format!("CELLPACE_LINK={number}")), "{several}");
    }
}
