//! What stands between the application's bytes and TCP's: the gate, or acks inside the stream.

use std::os::fd::BorrowedFd;

use cellpace_base::Time;
use cellpace_cc::Controller;
use rustix::net::SendFlags;

use crate::FlowStats;
use crate::relay::alcc_half::AlccHalf;
use crate::relay::byte_queue::AT_HAND;
use crate::relay::gate_half::GateHalf;
use crate::relay::local_socket::LocalSocket;
use cellpace_alcc::AlccError;

/// The lower half of a flow. The relay moves the bytes and knows nothing of windows.
pub(crate) enum Half {
    /// TCP's own acks count.
    Gate(Box<GateHalf>),
    /// Acks inside the stream count.
    Alcc(Box<AlccHalf>),
}

/// Does the same with either.
macro_rules! either {
    ($lower:expr, $half:ident => $what:expr) => {
        match $lower {
            Half::Gate($half) => $what,
            Half::Alcc($half) => $what,
        }
    };
}

impl Half {
    /// Learns from the kernel what was acknowledged; `stamps` says that stamps wait.
    pub(crate) fn learn(&mut self, now: Time, tcp: BorrowedFd<'_>, stamps: bool) {
        if let Self::Gate(gate) = self {
            gate.learn(now, tcp, stamps);
        }
    }

    /// A deadline may have passed.
    pub(crate) fn on_timer(&mut self, now: Time) -> Result<(), AlccError> {
        match self {
            Self::Gate(gate) => {
                gate.on_timer(now);
                Ok(())
            }
            Self::Alcc(alcc) => alcc.on_timer(now),
        }
    }

    /// Takes bytes from the application as long as few are at hand.
    pub(crate) fn refill(&mut self, local: &mut LocalSocket, scratch: &mut [u8]) {
        while local.is_readable() {
            let most = either!(self, half => half.wanted()).min(AT_HAND);
            if most == 0 {
                return;
            }
            match self {
                Self::Gate(gate) => gate.fill(most, local),
                Self::Alcc(alcc) => alcc.fill(most, local, scratch),
            }
        }
    }

    /// The bytes that TCP is to get now, in one call; none if there are none, or the controller
    /// has them wait.
    pub(crate) fn next_call(&mut self, now: Time) -> &[u8] {
        either!(self, half => half.next_call(now))
    }

    /// How the call is to be made.
    pub(crate) fn flags(&self) -> SendFlags {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match self {
            // A record per call, never merged with the next call's: each has its own stamp.
            Self::Gate(_) => flags | SendFlags::EOR,
            Self::Alcc(_) => flags,
        }
    }

    /// TCP took so many of them.
    pub(crate) fn on_taken(&mut self, now: Time, count: usize) {
        match self {
            Self::Gate(gate) => gate.on_taken(now, count),
            Self::Alcc(alcc) => alcc.on_taken(count),
        }
    }

    /// TCP took none of them.
    pub(crate) fn on_refused(&mut self, now: Time, tcp: BorrowedFd<'_>) {
        either!(self, half => half.on_refused(now, tcp));
    }

    /// Bytes that TCP may hold unsent. What waits there is delay that the controller would take
    /// for the path's, so it is a small part of its own window; a constant would be too much for
    /// short paths and too little for long ones.
    pub(crate) fn unsent_allowed(&self) -> u64 {
        either!(self, half => half.unsent_allowed())
    }

    /// Whether it takes more of what comes from TCP.
    pub(crate) fn takes_input(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.takes_input(),
            // Acks stand behind data that the application does not read yet.
            Self::Alcc(_) => true,
        }
    }

    /// Bytes came from TCP.
    pub(crate) fn handle_input(
        &mut self,
        now: Time,
        bytes: &[u8],
        local: &mut LocalSocket,
    ) -> Result<(), AlccError> {
        match self {
            Self::Gate(gate) => {
                gate.handle_input(now, bytes, local);
                Ok(())
            }
            Self::Alcc(alcc) => alcc.handle_input(now, bytes),
        }
    }

    /// Nothing more comes from TCP.
    pub(crate) fn handle_eof(&mut self) -> Result<(), AlccError> {
        match self {
            Self::Gate(_) => Ok(()),
            Self::Alcc(alcc) => alcc.handle_eof(),
        }
    }

    /// Gives the application what waits for it, as far as it takes it.
    pub(crate) fn hand_over(&mut self, local: &mut LocalSocket) {
        either!(self, half => half.hand_over(local));
    }

    /// Whether the application has got everything that it will get; `ended` says that nothing
    /// more comes from TCP.
    pub(crate) fn is_read(&self, ended: bool) -> bool {
        match self {
            Self::Gate(gate) => ended && gate.takes_input(),
            Self::Alcc(alcc) => alcc.is_read(),
        }
    }

    /// The application sends nothing more.
    pub(crate) fn finish(&mut self) {
        if let Self::Alcc(alcc) = self {
            alcc.finish();
        }
    }

    /// Whether TCP gets nothing more; `ended` says that the application sends nothing more.
    pub(crate) fn is_drained(&self, ended: bool) -> bool {
        match self {
            Self::Gate(gate) => ended && gate.is_drained(),
            Self::Alcc(alcc) => alcc.is_drained(),
        }
    }

    /// Whether the peer has everything that was sent so far; client/server, whether it has everything
    /// that ever will be.
    pub(crate) fn is_delivered(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.is_idle(),
            Self::Alcc(alcc) => alcc.is_delivered(),
        }
    }

    /// Whether bytes of the application wait here for TCP.
    pub(crate) fn holds_output(&self) -> bool {
        match self {
            Self::Gate(gate) => !gate.is_drained(),
            Self::Alcc(alcc) => alcc.holds_output(),
        }
    }

    /// Whether bytes of the peer wait here for the application.
    pub(crate) fn holds_input(&self) -> bool {
        match self {
            Self::Gate(gate) => !gate.takes_input(),
            Self::Alcc(alcc) => !alcc.is_handed_over(),
        }
    }

    /// Whether nothing waits and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.is_idle() && gate.is_drained(),
            Self::Alcc(alcc) => alcc.is_idle(),
        }
    }

    /// Whether TCP is over with bytes that will never be acknowledged.
    pub(crate) fn is_cut_off(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.is_cut_off(),
            // It gives up by a time of its own.
            Self::Alcc(_) => false,
        }
    }

    /// Whether memory for its buffers could not be allocated.
    pub(crate) fn is_starved(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.is_starved(),
            Self::Alcc(_) => false,
        }
    }

    /// Gives memory back, while nothing waits and nothing is in flight.
    pub(crate) fn rest(&mut self) {
        either!(self, half => half.rest());
    }

    /// When [`on_timer`](Self::on_timer) and [`learn`](Self::learn) want to be called.
    pub(crate) fn next_deadline(&self, now: Time, tcp_writable: bool) -> Option<Time> {
        match self {
            Self::Gate(gate) => gate.next_deadline(now, tcp_writable),
            Self::Alcc(alcc) => alcc.next_deadline(),
        }
    }

    /// Whether what the kernel reports of the TCP socket may wait until then.
    pub(crate) fn naps(&self, now: Time) -> bool {
        match self {
            Self::Gate(gate) => gate.naps(now),
            Self::Alcc(_) => false,
        }
    }

    /// The figures.
    pub(crate) fn stats(&mut self, tcp: BorrowedFd<'_>) -> FlowStats {
        match self {
            Self::Gate(gate) => gate.stats(),
            Self::Alcc(alcc) => alcc.stats(tcp),
        }
    }

    /// Why there is no controller any more.
    pub(crate) fn failure(&self) -> Option<&str> {
        either!(self, half => half.failure())
    }

    /// The controller, where there is one yet.
    pub(crate) fn controller_mut(&mut self) -> Option<&mut dyn Controller> {
        either!(self, half => half.controller_mut())
    }
}
