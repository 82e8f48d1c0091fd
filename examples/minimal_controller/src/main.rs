//! Compares a controller that cellpace does not know with Verus.

use std::error::Error;

use cellpace_lab::{ControllerSpec, Experiment};
use minimal_controller::Halving;

fn main() -> Result<(), Box<dyn Error>> {
    let halving = ControllerSpec::new("halving", |setup| Box::new(Halving::new(&setup)));
    let experiment = Experiment {
        traces: vec!["lte-driving".parse()?, "umts-driving".parse()?],
        controllers: vec![halving, "verus".parse()?],
        seeds: vec![1, 2, 3],
        ..Experiment::default()
    };
    let comparison = experiment.run(None, &mut ())?;
    print!("{}", cellpace_report::table(&comparison));
    Ok(())
}
