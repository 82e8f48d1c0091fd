//! Registers MDI in the kernel until its standard input ends, without a pin: for measurements and
//! for looking around.
//!
//! ```text
//! cargo run -p cellpace-kernel --features install --example mdi -- 'mdi:model=FILE' [NAME]
//! ```

#[cfg(all(target_os = "linux", feature = "install"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use cellpace_cc::ControllerSpec;
    use cellpace_kernel::mdi::{Loaded, NAME, TableInstallation};

    let mut args = std::env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| "mdi".to_owned());
    let mut read = |name: &str| std::fs::read(name).map_err(|error| error.to_string());
    let spec = ControllerSpec::parse(&spec, &mut read)?;
    let walk = spec.markov_walk().ok_or("no flat form: mdi without users=adapt")?;
    let cellpace_cc::MarkovWalk { flat, slow_start, .. } = walk;
    let name = args.next().unwrap_or_else(|| NAME.to_owned());
    let settings = TableInstallation { name, slow_start, ..TableInstallation::new(flat) };
    let link = Loaded::load(&settings, false)?.register()?;
    println!("{}", settings.name);
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    drop(link);
    Ok(())
}

#[cfg(not(all(target_os = "linux", feature = "install")))]
fn main() {
    eprintln!("needs Linux and the feature `install`");
}
