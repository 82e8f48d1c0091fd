//! Tests of `cellpace-path` from outside: each module is one subject.

mod profiles;
mod queues;
