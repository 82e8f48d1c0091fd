//! Modules as controllers. Without the feature `host` there are none.

#![cfg(feature = "host")]

mod bad_modules;
mod guests;
mod program;
