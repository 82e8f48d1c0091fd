//! The models that are part of the library; `./dev model` trains them again.

/// Verus with R=2, 1 to 4 users together, learnt on generated links: for a number of users that is
/// unknown.
pub static VERUS: &[u8] = include_bytes!("../models/verus-r2.mdi");

/// The same teacher by the number of users, on generated profiles: for a number that is given, or to
/// be found out. Alone, what one user learns after the first collapse does not know its way out of
/// long queues; in the combined table several users do.
pub static VERUS_BY_USERS: &[u8] = include_bytes!("../models/verus-r2-users.mdi");
