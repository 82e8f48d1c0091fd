//! HTTP/3 under any controller: a server of files and a client, over quinn.
//!
//! The server gives each connection a controller of its own, and bounds what strangers can make it
//! do: connections in all and from one address, requests at a time, the size of what they send, and how
//! long they may do nothing. It opens nothing outside of its folder.

#![forbid(unsafe_code)]

mod client;
mod error;
mod folder;
mod server;
mod watch;

pub use client::{Download, Url, UrlError, get};
pub use error::Http3Error;
pub use folder::{Folder, Found, NotFound};
pub use server::{ConnectionFigures, Limits, RequestFigures, Server, ServerView};

/// The name of the protocol in TLS.
const ALPN: &[u8] = b"h3";
