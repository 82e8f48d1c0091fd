//! `libcellpace.so`: preloaded by `cellpace run`, or linked for its C interface.
//!
//! Preloaded, it stands in front of some calls of the C library, [`hooks`] and [`epoll`]. They make the real
//! call by system call rather than by `dlsym(RTLD_NEXT)`: nothing is looked up, nothing allocated,
//! no lock waited for and no thread started, so that it does not matter which allocator the program
//! brings, in which order libraries come, and whether the call is made in a signal handler or
//! between fork and exec. All that it knows is in the environment and in the names of sockets.
//! Whatever fails inside, the program gets the plain TCP socket.

#![allow(unsafe_code, reason = "system calls and a C interface")]

#[allow(non_camel_case_types, reason = "names of C")]
pub mod alcc;
mod client;
mod config;
mod control_channel;
pub mod epoll;
pub mod hooks;
mod options;
mod records;
mod reserve;
mod sys;
