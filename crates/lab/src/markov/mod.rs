//! Markov tables: learnt from a controller that is watched, described and drawn.

mod epoch_log;
mod figures;
mod json;
mod pictures;
mod states_choice;
mod training;

pub use epoch_log::EpochLog;
pub use figures::ModelFigures;
pub use json::model_to_json;
pub use pictures::ModelPictures;
pub use states_choice::StatesChoice;
pub use training::{Lesson, LoggedRun, Training, check_name, learn, trace_source};
