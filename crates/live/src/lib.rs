//! What a command shows while it runs: a page in the browser with its connections, the data of that
//! page as a stream of events, and figures for Prometheus.
//!
//! [`LiveConnections`] is told which connections open and close, and reads their figures while
//! somebody looks; nobody looks: it adds up the last five minutes in steps of five seconds.
//! [`LiveServer`] answers browsers and scrapers. It has
//! a thread for each client, which takes the newest figures whenever its client has room for
//! more: slow clients get fewer updates and hold no memory.

#![forbid(unsafe_code)]

mod access;
mod connections;
mod figures;
mod flow;
mod histograms;
mod history;
mod metrics;
mod page;
mod reply;
mod request;
mod server;
mod stream;
mod summary;
mod view;

pub use access::LiveToken;
pub use connections::{LiveAbout, LiveConnections, NewConnection};
pub use figures::{
    ConnectionFigures, ConnectionInside, LiveConnection, SharedFigures, WatchedConnection,
};
pub use histograms::{HISTOGRAMS, Histogram};
pub use metrics::{METRICS, Metric, MetricKind, metric_family};
pub use prometheus::proto::MetricFamily;
pub use request::{MAX_HEAD_BYTES, Request, RequestError, read_head};
pub use server::{LiveServer, MAX_CLIENTS, MAX_STREAMS, MoreMetrics};
pub use stream::SCHEMA;
pub use view::{COLUMNS, LiveColumn};
