//! Tests of the program from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod above_tcp;
#[cfg(target_os = "linux")]
mod attach;
mod attack;
mod bad_input;
#[cfg(target_os = "linux")]
mod booted;
mod cc;
mod compare;
#[cfg(target_os = "linux")]
mod conform;
mod containers;
#[cfg(target_os = "linux")]
mod dashboard;
#[cfg(target_os = "linux")]
mod defaults;
#[cfg(target_os = "linux")]
mod documentation;
mod documents;
mod english;
mod experiment;
#[cfg(target_os = "linux")]
mod faults;
mod features;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod kernel_mdi;
#[cfg(target_os = "linux")]
mod kernel_native;
#[cfg(target_os = "linux")]
mod kernel_pins;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod link_first_use;
mod mdi;
mod mdi_flat;
mod mdi_imitation;
mod mdi_show;
#[cfg(target_os = "linux")]
mod metrics;
mod packaging;
#[cfg(target_os = "linux")]
mod parity;
#[cfg(target_os = "linux")]
mod pep;
mod playground;
#[cfg(feature = "plugin")]
mod plugin;
mod probe;
mod program;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(all(unix, feature = "quic"))]
mod quic;
#[cfg(target_os = "linux")]
mod real_programs;
mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod signals;
mod sim;
#[cfg(feature = "parquet")]
mod sweep;
mod trace;
#[cfg(unix)]
mod transfer;
#[cfg(unix)]
mod transfer_key;
mod transfers;
mod units;
mod workspace;
