//! The claim files and the conditions of recordings that come with the program.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
