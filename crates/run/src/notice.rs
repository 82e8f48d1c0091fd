//! What the launcher says while a program runs.

/// What happens while a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunNotice {
    /// SIGHUP came, and was passed on.
    Hangup,
    /// The program has ended, and these that it started have not: number and name.
    Waits(Vec<(i32, String)>),
    /// A program that it started cannot be preloaded, so that its connections are plain: number, name
    /// and reason, a half sentence.
    NotPreloaded(i32, String, String),
    /// A number of such a program, and how many new connections it has since a second ago.
    PlainConnections(i32, u64),
}
