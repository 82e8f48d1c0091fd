//! Finds where programs have sockets that are known by their cookies: process and descriptor.
//!
//! An iterator over the open files of all processes does it within the kernel, in one pass for all
//! sockets that are searched. The other ways are dearer, or can do less: sock_diag(7) and the links in
//! `/proc/PID/fd` take a request for each socket in the namespace of its network and some microseconds
//! for each descriptor of the machine; borrowing descriptors and comparing cookies does so, too, and
//! keeps what is not ours from being closed. This needs CAP_BPF and CAP_PERFMON, as attaching does, and
//! sees programs in all namespaces of networks.

use std::io::{self, Read};

use libbpf_rs::{
    Iter, IterOpts, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject,
};

/// The program as clang left it.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bpf.o"));

/// Sockets that one pass searches at most: `MAX_WANTED` of bpf/descriptors.bpf.c.
pub const MOST: usize = 4096;

const PLACE_BYTES: usize = 16;

/// A descriptor of a socket in some program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorPlace {
    /// The socket's cookie.
    pub cookie: u64,
    /// The process.
    pub pid: i32,
    /// The descriptor in it. By the time that one looks it may be another file's.
    pub descriptor: i32,
}

/// Searches sockets in the programs that run.
#[derive(Debug)]
pub struct Descriptors {
    link: Link,
    wanted: MapHandle,
    _object: Object,
}

impl Descriptors {
    /// Loads the program.
    ///
    /// # Errors
    /// When the kernel is older than 5.8, or our privilege does not allow it.
    pub fn open() -> io::Result<Self> {
        let object = opened().and_then(OpenObject::load).map_err(io::Error::other)?;
        let wanted = object
            .maps()
            .find(|map| map.name() == "wanted")
            .ok_or(io::ErrorKind::InvalidData)
            .map(|map| MapHandle::try_from(&map))?
            .map_err(io::Error::other)?;
        let link = object
            .progs_mut()
            .find(|program| program.name() == "find")
            .ok_or(io::ErrorKind::InvalidData)
            .map(|program| program.attach_iter_with_opts(IterOpts::None))?
            .map_err(io::Error::other)?;
        Ok(Self { link, wanted, _object: object })
    }

    /// Looks for the first [`MOST`] of `cookies` in all descriptors of all processes that we see. Sockets
    /// that several processes have, or one has twice, are reported several times. Takes 0.1 to
    /// 0.3 us for each descriptor of the machine.
    ///
    /// A file that its last owner closes in the moment that it is looked at ends with the pass.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn find(&mut self, cookies: &[u64]) -> io::Result<Vec<DescriptorPlace>> {
        let cookies = &cookies[..cookies.len().min(MOST)];
        for cookie in cookies {
            self.wanted
                .update(&cookie.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(io::Error::other)?;
        }
        let bytes = self.pass();
        for cookie in cookies {
            // It is there, as it was put there above.
            let _ = self.wanted.delete(&cookie.to_ne_bytes());
        }
        Ok(bytes?.chunks_exact(PLACE_BYTES).map(decode).collect())
    }

    fn pass(&self) -> io::Result<Vec<u8>> {
        let mut pass = Iter::new(&self.link).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        loop {
            match pass.read_to_end(&mut bytes) {
                Ok(_) => return Ok(bytes),
                // After a million descriptors without any that is searched: the search continues from there.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn opened() -> libbpf_rs::Result<OpenObject> {
    ObjectBuilder::default().open_memory(PROGRAM)
}

/// `struct place`.
fn decode(bytes: &[u8]) -> DescriptorPlace {
    let word =
        |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let cookie = bytes[..8].try_into().map_or(0, u64::from_ne_bytes);
    DescriptorPlace { cookie, pid: word(8), descriptor: word(12) }
}
