//! Markov tables: learnt from a controller that is watched, described and drawn.

mod epoch_log;
mod figures;
mod json;
mod pictures;
mod sample_file;
mod states_choice;
mod training;

pub use epoch_log::{ChainSink, EpochLog};
pub use figures::ModelFigures;
pub use json::model_to_json;
pub use pictures::ModelPictures;
pub use sample_file::SampleFile;
pub use states_choice::StatesChoice;
pub use training::{Lesson, LoggedRun, Training, check_name, learn, trace_source};
