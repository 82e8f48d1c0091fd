//! The time stamps of acks that the kernel keeps for a socket (`SO_TIMESTAMPING`).

#![allow(unsafe_code, reason = "system calls that no safe wrapper has")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use cellpace_base::{Span, Time};

use crate::books::SequenceUnwrap;
use crate::socket::set_option;
use crate::thread::now;

/// `SOF_TIMESTAMPING_OPT_ID_TCP` (Linux 6.2), which older headers lack: identifiers count from
/// what was written, not from what was acknowledged, when the option is set.
const OPT_ID_TCP: u32 = 1 << 16;

/// `SCM_TSTAMP_ACK` of `linux/errqueue.h`.
const TSTAMP_ACK: u32 = 2;

/// Has the kernel stamp the acknowledgment of every call's last byte.
pub(crate) fn stamp_acks(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY
        | libc::SOF_TIMESTAMPING_TX_ACK;
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags | OPT_ID_TCP)
        // Before 6.2; then nothing may be outstanding, or the identifiers are off.
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags))
}

/// The acknowledgments that the kernel stamped.
#[derive(Debug)]
pub(crate) struct AckStamps {
    offset: SequenceUnwrap,
    /// Read, and not given out.
    pending: VecDeque<StampRecord>,
    /// There was no more when they were read.
    drained: bool,
}

/// Identifier and time of an acknowledgment.
type StampRecord = (u32, libc::timespec);

/// One of them: everything before `offset` arrived, and the ack came at `when`, or a little earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckStamp {
    pub(crate) offset: u64,
    pub(crate) when: Time,
}

/// Room for the control messages of one record: the time stamps and the identifier.
#[repr(C, align(8))]
struct ControlBuffer([u8; 256]);

impl AckStamps {
    /// AckStamps of a socket to which [`stamp_acks`] was applied just now.
    pub(crate) fn new() -> Self {
        Self { offset: SequenceUnwrap::new(0), pending: VecDeque::new(), drained: false }
    }

    /// The next one, in the order in which they came; `None` when there is none.
    pub(crate) fn next(&mut self, socket: BorrowedFd<'_>) -> Option<AckStamp> {
        loop {
            let Some((id, stamp)) = self.pending.pop_front() else {
                if std::mem::take(&mut self.drained) {
                    return None;
                }
                let count = read_records(socket, &mut self.pending);
                // Fewer than a batch: the queue was empty, and another call would only say so.
                self.drained = count < BATCH;
                if count == 0 {
                    self.drained = false;
                    return None;
                }
                continue;
            };
            // ee_data is the offset of the call's last byte.
            if let Some(offset) = self.offset.advance(id.wrapping_add(1)) {
                // The age first: a thread that loses its processor in between finds the ack later
                // than it came, and never earlier, as which the path would look shorter than it is.
                let age = age(stamp);
                return Some(AckStamp { offset, when: now_minus(now(), age) });
            }
        }
    }
}

fn now_minus(now: Time, age: Span) -> Time {
    Time::from_nanos(now.as_nanos().saturating_sub(age.as_nanos()))
}

/// How long ago the wall clock showed `stamp`. A wall clock that was set meanwhile shows as an
/// absurd age, and counts as none.
fn age(stamp: libc::timespec) -> Span {
    const MOST: i128 = 1_000_000_000;
    let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let nanos = i128::from(wall.tv_sec - stamp.tv_sec) * 1_000_000_000 + i128::from(wall.tv_nsec)
        - i128::from(stamp.tv_nsec);
    if (0..MOST).contains(&nanos) { Span::from_nanos(nanos as u64) } else { Span::ZERO }
}

/// Records read at a time: usually all there are, and then no second call is needed to know it.
const BATCH: usize = 8;

/// Reads records of the error queue. Returns how many there were; those of other kinds than
/// acknowledgments are dropped.
fn read_records(socket: BorrowedFd<'_>, records: &mut VecDeque<StampRecord>) -> usize {
    let mut controls = [const { ControlBuffer([0; 256]) }; BATCH];
    // SAFETY: all zero is a valid array of message headers.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for (message, control) in messages.iter_mut().zip(&mut controls) {
        message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = control.0.len() as _;
    }
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let no_timeout = std::ptr::null_mut();
    // SAFETY: the headers point to `controls`, which lives on, and to nothing else.
    let count = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            BATCH as libc::c_uint,
            flags as _,
            no_timeout,
        )
    };
    let count = usize::try_from(count).unwrap_or(0);
    records.extend(messages[..count].iter().filter_map(|message| parse_record(&message.msg_hdr)));
    count
}

fn parse_record(message: &libc::msghdr) -> Option<(u32, libc::timespec)> {
    let (mut id, mut stamp) = (None, None);
    // SAFETY: the kernel filled in the header and the control buffer it points to.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: not null, so it points to a whole header in the control buffer.
        let header = unsafe { &*next };
        // SAFETY: as above.
        let data = unsafe { libc::CMSG_DATA(next) };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                // SAFETY: the message holds three time stamps; the first is the software's.
                stamp = Some(unsafe { data.cast::<libc::timespec>().read_unaligned() });
            }
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                // SAFETY: the message holds an extended error.
                let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
                let is_ack = error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING
                    && error.ee_info == TSTAMP_ACK;
                // The queue also has real errors, which are no stamps.
                id = is_ack.then_some(error.ee_data);
            }
            _ => {}
        }
        // SAFETY: `next` is a header of this message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    Some((id?, stamp?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tests::pair;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn acks_are_stamped_with_offset_and_time() {
        let (mut one, mut two) = pair();
        one.write_all(&[1; 10]).unwrap();
        two.read_exact(&mut [0; 10]).unwrap();
        stamp_acks(one.as_fd()).unwrap();
        let mut stamps = AckStamps::new();
        let sent_at = now();
        one.write_all(&[2; 300]).unwrap();
        two.read_exact(&mut [0; 300]).unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        let mut got = None;
        while got.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
            got = stamps.next(one.as_fd());
        }
        let got = got.unwrap();
        assert_eq!(got.offset, 300, "counted from what was written when stamping began");
        assert!(got.when <= now() && got.when >= sent_at, "{got:?}, sent at {sent_at:?}");
        assert_eq!(stamps.next(one.as_fd()), None);
    }
}
