//! A certificate for connections that no stranger sees.

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};

use super::error::VirtualTimeError;

pub(super) const NAME: &str = "receiver.invalid";

/// A new certificate and its key, both DER. Signatures of Ed25519 have one size, so that packets
/// have the same sizes in each run.
pub(super) fn certificate() -> Result<(Vec<u8>, Vec<u8>), VirtualTimeError> {
    let failed = |error: rcgen::Error| VirtualTimeError::Library(error.to_string());
    let key = KeyPair::generate_for(&PKCS_ED25519).map_err(failed)?;
    let mut params = CertificateParams::new([NAME.to_owned()]).map_err(failed)?;
    params.serial_number = Some(1.into());
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate.der().to_vec(), key.serialize_der()))
}
