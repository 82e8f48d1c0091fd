//! What is sent on the control socket: a hello and a greeting, and then requests, each with its answer.
//!
//! | record   | from     | bytes                                                     |
//! |----------|----------|-----------------------------------------------------------|
//! | hello    | client   | 0-3: magic, `CPR` and the version, 2                      |
//! |          |          | 4-19: the client's nonce                                  |
//! | greeting | launcher | 0-3: magic                                                |
//! |          |          | 4-19: the launcher's nonce                                |
//! |          |          | 20-51: proof                                              |
//! | request  | client   | below; a descriptor comes along                           |
//! | answer   | launcher | below; a descriptor comes along where it is done          |
//!
//! The control socket's name is public, and anybody can bind it once the launcher has ended. So each
//! end proves to the other that it knows the [`Token`], which itself is never sent: a proof is a
//! keyed hash of both nonces, one of which is new to the prover. The client sends no descriptor
//! before it has checked the greeting. A process keeps a connection for its next requests; the
//! launcher closes those that wait for nothing when it has no place for others. A descriptor in the
//! queue of a launcher that was stopped is kept there, and a TCP socket that is kept does not end
//! when the program closes it: one for each kept connection at most, since who gets no answer leaves
//! the launcher alone, and begins with a hello after that.
//!
//! | request      | bytes | meaning                                             |
//! |--------------|-------|-----------------------------------------------------|
//! | magic        | 0-3   | as above                                            |
//! | kind         | 4     | 1: take over the TCP socket that comes along        |
//! |              |       | 2: lend the TCP socket of the flow whose            |
//! |              |       | application's end comes along                       |
//! | flags        | 5     | bit 0: the application's end shall not block        |
//! |              |       | bit 1: the program opened the connection            |
//! |              |       | bit 2: it is not there yet, and shall not block     |
//! |              |       | bit 3: the program goes on with the socket, and     |
//! |              |       | awaits no answer                                    |
//! |              |       | kind 2: bit 0: for `SO_LINGER`                      |
//! | reserved     | 6-7   | 0                                                   |
//! | flow         | 8-15  | big endian; kind 1: the socket's descriptor at the  |
//! |              |       | client, which may keep it                           |
//! | proof        | 16-47 | of the bytes before it, too                         |
//!
//! | answer       | bytes | meaning                                             |
//! |--------------|-------|-----------------------------------------------------|
//! | magic        | 0-3   | as above                                            |
//! | status       | 4     | 0: done, and a descriptor comes along               |
//! |              |       | 1: refused                                          |
//! |              |       | 2: the program goes on with the socket, under       |
//! |              |       | control; it need not await answers for more         |
//! | reserved     | 5-7   | 0                                                   |
//! | queued       | 8-15  | big endian: bytes of the flow that TCP has not yet  |
//!
//! Encoding and decoding neither allocate nor panic.

/// The secret that both ends share: 256 random bits.
pub type Token = [u8; 32];
/// Random bytes that are used once.
pub type Nonce = [u8; 16];

/// Length of a hello in bytes.
pub const HELLO_LEN: usize = 20;
/// Length of a greeting in bytes.
pub const GREETING_LEN: usize = 20 + blake3::OUT_LEN;
/// Length of a request in bytes.
pub const REQUEST_LEN: usize = ASK_LEN + blake3::OUT_LEN;
/// Length of an answer in bytes.
pub const ANSWER_LEN: usize = 16;

/// Length of a request without its proof, in bytes.
pub const ASK_LEN: usize = 16;

const MAGIC: [u8; 4] = *b"CPR\x02";

/// A client's request.
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
        /// The program goes on with it whatever becomes of it, and awaits no answer. For a launcher that
        /// has said [`Stays`](AskOutcome::Stays).
        unawaited: bool,
        /// Its descriptor at the client, which goes on with it if the launcher gives it back.
        descriptor: u32,
    },
    /// To borrow the TCP socket of a flow, by showing the application's end of its pair.
    Fetch {
        /// The flow.
        flow: u64,
        /// For `SO_LINGER`, of which the launcher puts the program's own value back first.
        linger: bool,
    },
}

impl Ask {
    /// The beginning of a request.
    pub fn encode(&self) -> [u8; ASK_LEN] {
        let mut bytes = [0; ASK_LEN];
        let (kind, flags, flow) = match *self {
            Self::Adopt { nonblocking, outgoing, connecting, unawaited, descriptor } => {
                let bits = [nonblocking, outgoing, connecting, unawaited].into_iter().enumerate();
                let flags = bits.fold(0, |flags, (bit, is_set)| flags | u8::from(is_set) << bit);
                (1, flags, descriptor.into())
            }
            Self::Fetch { flow, linger } => (2, linger.into(), flow),
        };
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = kind;
        bytes[5] = flags;
        bytes[8..].copy_from_slice(&flow.to_be_bytes());
        bytes
    }

    /// Reads the beginning of a request; `None` for whatever is none of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ASK_LEN] = bytes.try_into().ok()?;
        let [kind, flags, 0, 0] = bytes[4..8] else { return None };
        let flow = u64::from_be_bytes(bytes[8..].try_into().ok()?);
        let ask = match (kind, flags, flow) {
            (1, 0..=3 | 7 | 8..=11, descriptor) => Self::Adopt {
                nonblocking: flags & 1 != 0,
                outgoing: flags & 2 != 0,
                connecting: flags & 4 != 0,
                unawaited: flags & 8 != 0,
                descriptor: u32::try_from(descriptor).ok()?,
            },
            (2, 0 | 1, flow) => Self::Fetch { flow, linger: flags != 0 },
            _ => return None,
        };
        (bytes[..4] == MAGIC).then_some(ask)
    }
}

/// The hello with a client's nonce.
pub fn hello(nonce: &Nonce) -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..].copy_from_slice(nonce);
    bytes
}

/// The client's nonce in a hello; `None` for whatever is none of this version.
pub fn read_hello(bytes: &[u8]) -> Option<Nonce> {
    let bytes: &[u8; HELLO_LEN] = bytes.try_into().ok()?;
    bytes.strip_prefix(&MAGIC)?.try_into().ok()
}

/// One connection to the control socket: what both ends' proofs are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlSession {
    /// The client's nonce.
    pub client: Nonce,
    /// The launcher's nonce.
    pub launcher: Nonce,
}

impl ControlSession {
    /// The launcher's greeting, which proves that it knows the token.
    pub fn greeting(&self, token: &Token) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..20].copy_from_slice(&self.launcher);
        bytes[20..].copy_from_slice(self.proof(token, &[]).as_bytes());
        bytes
    }

    /// Reads the greeting that follows the hello with the nonce `client`; `None` unless it is of
    /// this version and its sender knows the token.
    pub fn greeted(client: Nonce, bytes: &[u8], token: &Token) -> Option<Self> {
        let bytes: &[u8; GREETING_LEN] = bytes.try_into().ok()?;
        let session = Self { client, launcher: bytes[4..20].try_into().ok()? };
        let proof = blake3::Hash::from_slice(&bytes[20..]).ok()?;
        (bytes[..4] == MAGIC && proof == session.proof(token, &[])).then_some(session)
    }

    /// A client's request, which proves that the client knows the token.
    pub fn request(&self, token: &Token, ask: Ask) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        let body = ask.encode();
        bytes[..ASK_LEN].copy_from_slice(&body);
        bytes[ASK_LEN..].copy_from_slice(self.proof(token, &body).as_bytes());
        bytes
    }

    /// Reads a request; `None` unless it is of this version and its sender knows the token.
    pub fn asked(&self, token: &Token, bytes: &[u8]) -> Option<Ask> {
        let (body, proof) = bytes.split_at_checked(ASK_LEN)?;
        let proof = blake3::Hash::from_slice(proof).ok()?;
        if proof != self.proof(token, body) {
            return None;
        }
        Ask::decode(body)
    }

    /// A keyed hash, which takes the same time to compare for every wrong one. The launcher's has no
    /// body, so that neither end's proof passes for the other's.
    fn proof(&self, token: &Token, body: &[u8]) -> blake3::Hash {
        let mut bytes = [0; MAGIC.len() + 2 * size_of::<Nonce>() + ASK_LEN];
        let len = bytes.len() - ASK_LEN + body.len();
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..20].copy_from_slice(&self.client);
        bytes[20..36].copy_from_slice(&self.launcher);
        bytes[36..len].copy_from_slice(body);
        blake3::keyed_hash(token, &bytes[..len])
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AskOutcome {
    /// It was done; a descriptor comes along.
    Done = 0,
    /// It was not.
    Refused = 1,
    /// The connection is under control and stays with the program.
    Stays = 2,
}

/// The launcher's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What became of it.
    pub outcome: AskOutcome,
    /// Bytes of the flow that the application wrote, the engine holds and TCP does not have yet.
    pub queued: u64,
}

impl Answer {
    /// The answer to what is not done.
    pub const REFUSED: Self = Self { outcome: AskOutcome::Refused, queued: 0 };
    /// The answer about a connection that stays with the program.
    pub const STAYS: Self = Self { outcome: AskOutcome::Stays, queued: 0 };

    /// The answer that a descriptor comes along with.
    pub fn done(queued: u64) -> Self {
        Self { outcome: AskOutcome::Done, queued }
    }

    /// The answer as bytes.
    pub fn encode(&self) -> [u8; ANSWER_LEN] {
        let mut bytes = [0; ANSWER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.outcome as u8;
        bytes[8..].copy_from_slice(&self.queued.to_be_bytes());
        bytes
    }

    /// Reads an answer; `None` for whatever is none of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ANSWER_LEN] = bytes.try_into().ok()?;
        let queued = u64::from_be_bytes(bytes[8..].try_into().ok()?);
        let outcome = match bytes[4] {
            0 => AskOutcome::Done,
            1 => AskOutcome::Refused,
            2 => AskOutcome::Stays,
            _ => return None,
        };
        (bytes[..4] == MAGIC).then_some(Self { outcome, queued })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: Token = [7; 32];
    const SESSION: ControlSession = ControlSession { client: [1; 16], launcher: [2; 16] };

    fn asks() -> impl Strategy<Value = Ask> {
        prop_oneof![
            any::<([bool; 3], u32)>().prop_map(
                |([nonblocking, outgoing, unawaited], descriptor)| {
                    Ask::Adopt { nonblocking, outgoing, connecting: false, unawaited, descriptor }
                }
            ),
            any::<u32>().prop_map(|descriptor| Ask::Adopt {
                nonblocking: true,
                outgoing: true,
                connecting: true,
                unawaited: false,
                descriptor
            }),
            any::<(u64, bool)>().prop_map(|(flow, linger)| Ask::Fetch { flow, linger }),
        ]
    }

    proptest! {
        #[test]
        fn greetings_and_requests_survive_their_bytes(
            token: Token, client: Nonce, launcher: Nonce, ask in asks()
        ) {
            prop_assert_eq!(read_hello(&hello(&client)), Some(client));
            let session = ControlSession { client, launcher };
            let greeted = ControlSession::greeted(client, &session.greeting(&token), &token);
            prop_assert_eq!(greeted, Some(session));
            prop_assert_eq!(session.asked(&token, &session.request(&token, ask)), Some(ask));
        }

        #[test]
        fn answers_survive_their_bytes(which in 0_usize..3, queued: u64) {
            let outcome = [AskOutcome::Done, AskOutcome::Refused, AskOutcome::Stays][which];
            let answer = Answer { outcome, queued };
            prop_assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }

        #[test]
        fn what_reads_as_a_request_is_written_the_same(mut bytes: [u8; ASK_LEN], kind in 0_u8..4) {
            bytes[..4].copy_from_slice(&MAGIC);
            let flags = bytes[5] & 15;
            bytes[4..8].copy_from_slice(&[kind, flags, 0, 0]);
            if let Some(ask) = Ask::decode(&bytes) {
                prop_assert_eq!(ask.encode(), bytes);
            }
        }
    }

    #[test]
    fn other_versions_lengths_and_flags_are_refused() {
        let bytes = SESSION.request(&TOKEN, Ask::Fetch { flow: 9, linger: false });
        assert_eq!(SESSION.asked(&TOKEN, &bytes[..REQUEST_LEN - 1]), None);
        assert_eq!(SESSION.asked(&TOKEN, &[bytes.as_slice(), &[0]].concat()), None);
        for (place, value) in [(0, b'X'), (3, 1), (4, 0), (4, 3), (5, 2), (6, 1), (7, 1)] {
            let mut wrong = Ask::Fetch { flow: 9, linger: false }.encode();
            wrong[place] = value;
            assert_eq!(Ask::decode(&wrong), None, "byte {place}");
        }
        let greeting = SESSION.greeting(&TOKEN);
        assert_eq!(
            ControlSession::greeted(SESSION.client, &greeting[..GREETING_LEN - 1], &TOKEN),
            None
        );
        let (mut hello, mut greeting) = (hello(&SESSION.client), greeting);
        (hello[3], greeting[3]) = (1, 1);
        assert_eq!(read_hello(&hello), None);
        assert_eq!(ControlSession::greeted(SESSION.client, &greeting, &TOKEN), None);
        assert_eq!(ControlSession::greeted(SESSION.client, b"CPR\x01", &TOKEN), None);
    }

    #[test]
    fn what_is_being_opened_is_outgoing_and_does_not_block() {
        let ask = Ask::Adopt {
            nonblocking: true,
            outgoing: true,
            connecting: true,
            unawaited: false,
            descriptor: 9,
        };
        for flags in [4, 5, 6, 12, 15, 16] {
            let mut wrong = ask.encode();
            wrong[5] = flags;
            assert_eq!(Ask::decode(&wrong), None, "{flags}");
        }
    }

    #[test]
    fn only_who_knows_the_token_can_greet_and_ask() {
        let greeting = SESSION.greeting(&TOKEN);
        let request = SESSION.request(&TOKEN, Ask::Fetch { flow: 9, linger: false });
        for bit in 0..256 {
            let mut token = TOKEN;
            token[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ControlSession::greeted(SESSION.client, &greeting, &token), None);
            assert_eq!(SESSION.asked(&token, &request), None);
        }
    }

    #[test]
    fn what_was_sent_on_another_connection_proves_nothing() {
        let greeting = SESSION.greeting(&TOKEN);
        assert_eq!(ControlSession::greeted([3; 16], &greeting, &TOKEN), None);
        let request = SESSION.request(&TOKEN, Ask::Fetch { flow: 9, linger: false });
        for other in [
            ControlSession { client: [3; 16], ..SESSION },
            ControlSession { launcher: [3; 16], ..SESSION },
            ControlSession { client: SESSION.launcher, launcher: SESSION.client },
        ] {
            assert_eq!(other.asked(&TOKEN, &request), None);
        }
        // Nor does the launcher's own proof.
        let mut reflected = request;
        reflected[ASK_LEN..].copy_from_slice(&greeting[20..]);
        assert_eq!(SESSION.asked(&TOKEN, &reflected), None);
    }

    #[test]
    fn each_bit_of_a_request_is_covered_by_its_proof() {
        let request = SESSION.request(&TOKEN, Ask::Fetch { flow: 9, linger: false });
        for bit in 0..8 * REQUEST_LEN {
            let mut wrong = request;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SESSION.asked(&TOKEN, &wrong), None, "bit {bit}");
        }
    }

    #[test]
    fn the_token_is_in_nothing_that_is_sent() {
        let sent = [
            hello(&SESSION.client).as_slice(),
            &SESSION.greeting(&TOKEN),
            &SESSION.request(&TOKEN, Ask::Fetch { flow: 9, linger: false }),
        ]
        .concat();
        assert!(!sent.windows(4).any(|bytes| bytes == &TOKEN[..4]));
    }
}
