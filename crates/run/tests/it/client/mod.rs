//! A client of the control socket, as it should not be.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use cellpace_control::message::{
    ANSWER_LEN, Answer, Ask, AskOutcome, ControlSession, GREETING_LEN, Nonce, Token, hello,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};
use rustix::thread::set_thread_res_uid;

/// A user that no file belongs to.
pub(crate) const NOBODY: u32 = 65534;

/// Whether tests with other users can run; prints the reason if not.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        cellpace_testing::skip("not root");
    }
    is_root
}

/// Runs something as another user, in a thread of its own.
pub(crate) fn as_user<T: Send>(uid: u32, run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let changed = move || {
            let uid = rustix::process::Uid::from_raw(uid);
            set_thread_res_uid(uid, uid, uid).unwrap();
            run()
        };
        scope.spawn(changed).join().unwrap()
    })
}

/// A connection to the control socket, on which nothing was sent yet.
pub(crate) fn dial(name: &str) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let patience = Some(Duration::from_secs(10));
    let kind = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(&socket, kind, patience).unwrap();
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    socket
}

pub(crate) const NONCE: Nonce = [0xab; 16];

/// What a client can know of a session without the token.
pub(crate) fn greeted(socket: &OwnedFd) -> ControlSession {
    send(socket, &hello(&NONCE), &[]);
    let mut bytes = [0; GREETING_LEN + 1];
    assert_eq!(rustix::io::read(socket, &mut bytes).unwrap(), GREETING_LEN);
    ControlSession { client: NONCE, launcher: bytes[4..20].try_into().unwrap() }
}

pub(crate) fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
}

/// The answer; `None` if the broker hung up without one.
pub(crate) fn receive(socket: &OwnedFd) -> Option<(Answer, Option<OwnedFd>)> {
    let mut bytes = [0; ANSWER_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let count = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
    let count = match count {
        Ok(received) => received.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => panic!("{error}"),
    };
    let mut fds = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let fd = fds.next();
    (count > 0).then(|| (Answer::decode(&bytes[..count]).unwrap(), fd))
}

pub(crate) const ADOPT: Ask = Ask::Adopt {
    nonblocking: false,
    outgoing: false,
    connecting: false,
    unawaited: false,
    descriptor: 9,
};

pub(crate) fn ask(
    name: &str,
    token: &Token,
    ask: Ask,
    fds: &[BorrowedFd<'_>],
) -> Option<(Answer, Option<OwnedFd>)> {
    let socket = dial(name);
    let session = greeted(&socket);
    send(&socket, &session.request(token, ask), fds);
    receive(&socket)
}

#[track_caller]
pub(crate) fn is_refused(answer: &Option<(Answer, Option<OwnedFd>)>) {
    assert!(
        matches!(answer, None | Some((Answer { outcome: AskOutcome::Refused, .. }, None))),
        "{answer:?}"
    );
}

/// Both ends of a TCP connection: ours and the peer's.
pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (listener.accept().unwrap().0, peer)
}
