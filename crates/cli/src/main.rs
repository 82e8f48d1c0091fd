//! The program `cellpace`, with the controllers that come with it.

fn main() -> std::process::ExitCode {
    cellpace::main_with(&[])
}
