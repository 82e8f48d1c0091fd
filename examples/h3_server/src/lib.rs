//! Files over HTTP/3, each connection under a controller of its own: what a program on quinn and h3
//! does to use cellpace's controllers, and what it takes to serve strangers.
//!
//! The lines for the controller are in [`Server::bind`] (`factory.install_quinn`) and in the task of a
//! connection (`cellpace_quic::quinn::attach`). The rest bounds what strangers can make the server do:
//!
//! - connections, open files and memory, in all and from one network (an IPv4 address, or 64 bits of
//!   IPv6): [`cellpace_base::quota`];
//! - requests at a time, the size of their headers, and how many are given up before their answer;
//! - how long a connection may ask for nothing (pings do not count), and an answer may go unread;
//! - no address that has not answered is sent more than a Retry.
//!
//! It opens nothing outside of its folder, reads no body, and has neither ranges nor conditions. It
//! does not give up privileges: run it as a user of its own, who may read the folder and nothing else.

#![forbid(unsafe_code)]

mod folder;
mod log;
mod server;
mod watch;

pub use folder::{Folder, Found, NotFound};
pub use log::RequestLog;
pub use server::{ConnectionFigures, Limits, RequestFigures, Server, ServerError, ServerView};

/// The name of the protocol in TLS.
const ALPN: &[u8] = b"h3";
