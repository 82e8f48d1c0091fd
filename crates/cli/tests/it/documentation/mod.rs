//! The documentation is true: every page is part of the book, every link leads somewhere, every command
//! line in README.md, `docs/` and `--help` runs, and its output is what is shown.

mod command_lines;
mod help;
mod links;
mod pages;
mod pictures;
mod schemas;
mod session;
