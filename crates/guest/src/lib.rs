//! A controller in Rust as a WebAssembly module, for `--cc plugin:FILE.wasm` of cellpace.
//!
//! Build a `cdylib` for `wasm32-unknown-unknown` that names the parameters of its controller:
//!
//! ```
//! use cellpace_cc::{Controller, ControllerParams, Permit, Setup, params};
//!
//! params! {
//!     /// The parameters.
//!     pub struct ConstantParams {
//!         /// The window in packets
//!         packets: u64 = "20" in 1..=1000, from "an example";
//!     }
//! }
//!
//! struct Constant(u64);
//!
//! impl Controller for Constant {
//!     fn permit(&self) -> Permit {
//!         Permit::Window(self.0)
//!     }
//! }
//!
//! impl ControllerParams for ConstantParams {
//!     fn build(&self, setup: Setup) -> Box<dyn Controller> {
//!         Box::new(Constant(self.packets * setup.mss))
//!     }
//! }
//!
//! cellpace_guest::export!(ConstantParams);
//! ```

pub mod abi;
mod declared;
mod flow;

pub use declared::Declared;
pub use flow::{GuestFlow, with_flow, with_others};

/// Exports a controller: `$params` is declared by `cellpace_cc::params!` and implements `ControllerParams`. Its
/// parameters become those of `plugin:FILE.wasm,key=value`, but for words, windows and texts, which keep their
/// defaults. A crate has it once.
#[macro_export]
macro_rules! export {
    ($params:ty) => {
        const _: () = {
            static DECLARED: std::sync::LazyLock<$crate::Declared> =
                std::sync::LazyLock::new($crate::Declared::of::<$params>);

            #[unsafe(no_mangle)]
            extern "C" fn cellpace_abi() -> u32 {
                $crate::abi::VERSION
            }

            #[unsafe(no_mangle)]
            extern "C" fn cellpace_params() -> *const $crate::abi::Param {
                DECLARED.records()
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn cellpace_start(
                setup: *const $crate::abi::Setup,
                answers: &mut $crate::abi::Answers,
            ) {
                // SAFETY: cellpace writes the record and its values before the call.
                let (setup, values) = unsafe { $crate::with_others(setup, |setup| setup.params) };
                $crate::GuestFlow::start::<$params>(&DECLARED, &setup, values, answers);
            }

    $crate::export!(@packets cellpace_on_ack, Flow, on_ack);
    $crate::export!(@packets cellpace_on_loss, Flow, on_loss);
    $crate::export!(@packets cellpace_on_spurious, Spurious, on_spurious);
    $crate::export!(@alone cellpace_on_sent, &$crate::abi::Sent, on_sent);
    $crate::export!(@alone cellpace_on_mark, &$crate::abi::Flow, on_mark);
    $crate::export!(@alone cellpace_on_timeout, &$crate::abi::Timeout, on_timeout);
    $crate::export!(@alone cellpace_on_block, &$crate::abi::Block, on_block);
    $crate::export!(@alone cellpace_on_frame, &$crate::abi::Frame, on_frame);
    $crate::export!(@alone cellpace_on_deadline, u64, on_deadline);
    $crate::export!(@alone cellpace_on_path_change, u64, on_path_change);
    $crate::export!(@alone cellpace_on_ecn_failed, u64, on_ecn_failed);
        };
    };
    (@packets $name:ident, $record:ident, $method:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            event: *const $crate::abi::$record,
            answers: &mut $crate::abi::Answers,
        ) {
            // SAFETY: cellpace writes the record and its packets before the call.
            let (event, packets) = unsafe { $crate::with_others(event, |event| event.count) };
            $crate::with_flow(|flow| flow.$method(&event, packets, answers));
        }
    };
    (@alone $name:ident, $event:ty, $method:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name(event: $event, answers: &mut $crate::abi::Answers) {
            $crate::with_flow(|flow| flow.$method(event, answers));
        }
    };
}
