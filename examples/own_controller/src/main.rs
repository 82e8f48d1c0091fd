//! The program `cellpace` with one controller and one queue more.

fn main() -> std::process::ExitCode {
    cellpace_path::queue::register(&[own_controller::queue::SMALL_FIRST]).expect("a new name");
    cellpace::main_with(&[own_controller::HALVING])
}
