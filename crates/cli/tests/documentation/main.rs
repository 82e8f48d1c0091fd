//! The documentation is true: every page is part of the book, every link leads somewhere, every command
//! line in README.md, `docs/` and `--help` runs, and its output is what is shown.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod command_lines;
mod help;
mod links;
mod pages;
mod schemas;
mod session;
