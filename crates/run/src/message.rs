//! What is said on the control socket: the launcher's greeting, one request and one answer, each
//! a single record, and then the connection ends.
//!
//! The greeting is the magic alone. Clients wait for it: a descriptor that was sent to a launcher
//! that does not run is held in the queue, and a TCP socket that is held there does not end when
//! the program closes it.
//!
//! | request      | bytes | meaning                                             |
//! |--------------|-------|-----------------------------------------------------|
//! | magic        | 0-3   | `CPR` and the version, 1                            |
//! | kind         | 4     | 1: take over the TCP socket that comes along        |
//! |              |       | 2: lend the TCP socket of a flow                    |
//! | flags        | 5     | bit 0: the application's end shall not block        |
//! |              |       | bit 1: the program opened the connection            |
//! |              |       | bit 2: it is not there yet, and shall not block     |
//! | reserved     | 6-7   | 0                                                   |
//! | token        | 8-23  | as in the environment                               |
//! | flow         | 24-31 | big endian; kind 1: the socket's descriptor at the  |
//! |              |       | client, which may keep it                           |
//!
//! | answer       | bytes | meaning                                             |
//! |--------------|-------|-----------------------------------------------------|
//! | magic        | 0-3   | as above                                            |
//! | status       | 4     | 0: done, and a descriptor comes along; else refused |
//! | reserved     | 5-7   | 0                                                   |
//! | queued       | 8-15  | big endian: bytes of the flow that TCP has not yet  |
//!
//! Encoding and decoding neither allocate nor panic.

/// What a client must know to be served: 128 random bits.
pub type Token = [u8; 16];

/// Length of a request in bytes.
pub const REQUEST_LEN: usize = 32;
/// Length of an answer in bytes.
pub const ANSWER_LEN: usize = 16;

/// The last byte is the version.
const MAGIC: [u8; 4] = *b"CPR\x01";

/// What the launcher says first.
pub const GREETING: [u8; 4] = MAGIC;

/// What a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// To hand over a TCP socket.
    Adopt {
        /// The application's end shall not block.
        nonblocking: bool,
        /// The program opened the connection; otherwise it accepted it.
        outgoing: bool,
        /// It is being opened and not there yet; only with both of the above.
        connecting: bool,
        /// Its descriptor at the client, which goes on with it if the launcher gives it back.
        descriptor: u32,
    },
    /// To borrow the TCP socket of a flow.
    Fetch {
        /// The flow.
        flow: u64,
    },
}

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Shows that the client may ask.
    pub token: Token,
    /// What it wants.
    pub ask: Ask,
}

impl Request {
    /// The request as bytes.
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        let (kind, flags, flow) = match self.ask {
            Ask::Adopt { nonblocking, outgoing, connecting, descriptor } => {
                let [nonblocking, outgoing, connecting] =
                    [nonblocking, outgoing, connecting].map(u8::from);
                (1, nonblocking | outgoing << 1 | connecting << 2, descriptor.into())
            }
            Ask::Fetch { flow } => (2, 0, flow),
        };
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = kind;
        bytes[5] = flags;
        bytes[8..24].copy_from_slice(&self.token);
        bytes[24..].copy_from_slice(&flow.to_be_bytes());
        bytes
    }

    /// Reads a request; `None` for whatever is none of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; REQUEST_LEN] = bytes.try_into().ok()?;
        let [kind, flags, 0, 0] = bytes[4..8] else { return None };
        let flow = u64::from_be_bytes(bytes[24..].try_into().ok()?);
        let ask = match (kind, flags, flow) {
            (1, 0..=3 | 7, descriptor) => Ask::Adopt {
                nonblocking: flags & 1 != 0,
                outgoing: flags & 2 != 0,
                connecting: flags & 4 != 0,
                descriptor: u32::try_from(descriptor).ok()?,
            },
            (2, 0, flow) => Ask::Fetch { flow },
            _ => return None,
        };
        let token = bytes[8..24].try_into().ok()?;
        (bytes[..4] == MAGIC).then_some(Self { token, ask })
    }

    /// Whether the request shows `token`. Takes the same time for every wrong one.
    pub fn shows(&self, token: &Token) -> bool {
        let differences = self.token.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0
    }
}

/// The launcher's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether it was done; then a descriptor comes along.
    pub done: bool,
    /// Bytes of the flow that the application wrote, the engine holds and TCP does not have yet.
    pub queued: u64,
}

impl Answer {
    /// The answer to what is not done.
    pub const REFUSED: Self = Self { done: false, queued: 0 };

    /// The answer as bytes.
    pub fn encode(&self) -> [u8; ANSWER_LEN] {
        let mut bytes = [0; ANSWER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(!self.done);
        bytes[8..].copy_from_slice(&self.queued.to_be_bytes());
        bytes
    }

    /// Reads an answer.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ANSWER_LEN] = bytes.try_into().ok()?;
        let queued = u64::from_be_bytes(bytes[8..].try_into().ok()?);
        (bytes[..4] == MAGIC).then_some(Self { done: bytes[4] == 0, queued })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asks() -> impl Strategy<Value = Ask> {
        prop_oneof![
            any::<(bool, bool, u32)>().prop_map(|(nonblocking, outgoing, descriptor)| {
                Ask::Adopt { nonblocking, outgoing, connecting: false, descriptor }
            }),
            any::<u32>().prop_map(|descriptor| Ask::Adopt {
                nonblocking: true,
                outgoing: true,
                connecting: true,
                descriptor
            }),
            any::<u64>().prop_map(|flow| Ask::Fetch { flow }),
        ]
    }

    proptest! {
        #[test]
        fn requests_survive_their_bytes(token: Token, ask in asks()) {
            let request = Request { token, ask };
            prop_assert_eq!(Request::decode(&request.encode()), Some(request));
        }

        #[test]
        fn answers_survive_their_bytes(done: bool, queued: u64) {
            let answer = Answer { done, queued };
            prop_assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }

        #[test]
        fn what_reads_as_a_request_is_written_the_same(mut bytes: [u8; REQUEST_LEN], kind in 0_u8..4) {
            bytes[..4].copy_from_slice(&MAGIC);
            let flags = bytes[5] & 7;
            bytes[4..8].copy_from_slice(&[kind, flags, 0, 0]);
            if let Some(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
        }
    }

    #[test]
    fn other_versions_lengths_and_flags_are_refused() {
        let request = Request { token: [7; 16], ask: Ask::Fetch { flow: 9 } };
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes[..31]), None);
        assert_eq!(Request::decode(&[bytes.as_slice(), &[0]].concat()), None);
        for (place, value) in [(0, b'X'), (3, 2), (4, 0), (4, 3), (5, 1), (6, 1), (7, 1)] {
            let mut wrong = bytes;
            wrong[place] = value;
            assert_eq!(Request::decode(&wrong), None, "byte {place}");
        }
    }

    #[test]
    fn what_is_being_opened_is_outgoing_and_does_not_block() {
        let ask = Ask::Adopt { nonblocking: true, outgoing: true, connecting: true, descriptor: 9 };
        let bytes = Request { token: [7; 16], ask }.encode();
        for flags in [4, 5, 6, 8, 15] {
            let mut wrong = bytes;
            wrong[5] = flags;
            assert_eq!(Request::decode(&wrong), None, "{flags}");
        }
    }

    #[test]
    fn each_bit_of_the_token_counts() {
        let request = Request { token: [0x5a; 16], ask: Ask::Fetch { flow: 0 } };
        assert!(request.shows(&[0x5a; 16]));
        for bit in 0..128 {
            let mut token = [0x5a; 16];
            token[bit / 8] ^= 1 << (bit % 8);
            assert!(!request.shows(&token));
        }
    }
}
