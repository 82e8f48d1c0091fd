//! The program `cellpace` with one controller more.

fn main() -> std::process::ExitCode {
    cellpace::main_with(&[own_controller::HALVING])
}
