//! Writes the playground page: `cargo run -p cellpace-web --example playground -- out/playground.html`.

mod page;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("usage: playground FILE.html");
        return ExitCode::from(2);
    };
    match write(Path::new(&file)) {
        Ok(bytes) => {
            println!("{}: {:.2} MB", Path::new(&file).display(), bytes as f64 / 1e6);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("playground: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(file: &Path) -> Result<usize, String> {
    let module = page::build_module()?;
    let module =
        std::fs::read(&module).map_err(|error| format!("{}: {error}", module.display()))?;
    let page = page::page(&module);
    cellpace_report::write_atomically(file, page.as_bytes()).map_err(|error| error.to_string())?;
    Ok(page.len())
}
