//! Transfers over UDP: what flows send, where what they receive goes, and their figures.

mod conclusion;
mod data;
mod document;
mod flow;
mod flows;
mod key;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "quic")]
mod quic_segments;
#[cfg(feature = "quic")]
mod quic_socket;
#[cfg(feature = "quic")]
mod quic_stream;
mod record;
mod series;
mod session;

pub use conclusion::{TransferConditions, TransferResult};
pub use data::{DataSink, DataSource, SinkError, SourceState};
pub use document::{SCHEMA, TransferDocument, TransferFlowDocument, TransferInterval};
pub use flow::{FlowData, TransferFlow};
pub use flows::TransferFlows;
pub use key::{OwnKey, SECRET_BYTES, create_key, read_key, read_private};
#[cfg(feature = "quic")]
pub use quic::{OnBound, QuicMeeting, QuicRole, QuicTransfer};
#[cfg(feature = "quic")]
pub use quic_stream::{QuicStreamError, QuicStreamReader};
pub use series::TransferSeries;
pub use session::{Another, Transfer, TransferView, Welcome, made_up, shown_address};
