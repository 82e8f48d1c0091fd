//! Who is at the other end: a certificate of one's own, and peers known by the fingerprint of theirs.
//!
//! ```
//! use cellpace_quic::identity::{Identity, Peer, client_config, server_config};
//!
//! let server = Identity::generate(["localhost".to_owned()])?;
//! let printed = server.fingerprint().to_string();
//! let configuration = server_config(&server, None, b"h3")?;
//! // At the other end, which has got the fingerprint by some other way.
//! let peer: Peer = printed.parse()?;
//! let configuration = client_config(&peer, None, b"h3")?;
//! # Ok::<(), cellpace_quic::identity::IdentityError>(())
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::HEXLOWER_PERMISSIVE;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, PublicKeyData};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme, version,
};
use sha2::{Digest, Sha256};

/// Why an identity or a peer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The text is no fingerprint.
    #[error("`{0}` is no fingerprint: write sha256: and 64 hexadecimal digits")]
    Fingerprint(String),
    /// A PEM file lacks something or cannot be read.
    #[error("{0}")]
    Pem(String),
    /// TLS refused it.
    #[error("TLS: {0}")]
    Tls(String),
}

impl IdentityError {
    fn tls(error: impl fmt::Display) -> Self {
        Self::Tls(error.to_string())
    }
}

/// The SHA-256 of a certificate, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", HEXLOWER_PERMISSIVE.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let wrong = || IdentityError::Fingerprint(text.to_owned());
        let digits = text.strip_prefix("sha256:").ok_or_else(wrong)?;
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|_| wrong())?;
        Ok(Self(bytes.try_into().map_err(|_| wrong())?))
    }
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// The SHA-256 of the public key, where it was made here.
    key_hash: Option<[u8; 32]>,
}

/// What a PKCS #8 document of an Ed25519 key begins with (RFC 8410 section 7); the 32 bytes of the
/// key follow.
const PKCS8_ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

impl Identity {
    /// A new key, and a certificate of its own for these names.
    ///
    /// # Errors
    /// When one of them is no name, or the system has no random numbers.
    pub fn generate(names: impl Into<Vec<String>>) -> Result<Self, IdentityError> {
        // ECDSA on P-256: browsers take no Ed25519.
        let key = KeyPair::generate().map_err(IdentityError::tls)?;
        Self::self_signed(&key, names.into())
    }

    /// The key and the certificate that follow from a secret: both ends that have the secret make
    /// the same ones.
    ///
    /// # Errors
    /// When TLS refuses the key.
    pub fn from_secret(secret: &[u8; 32]) -> Result<Self, IdentityError> {
        let mut hash = Sha256::new();
        hash.update(b"cellpace quic identity 1");
        hash.update(secret);
        let document = [&PKCS8_ED25519[..], &hash.finalize()].concat();
        let key = PrivatePkcs8KeyDer::from(document);
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519);
        Self::self_signed(&key.map_err(IdentityError::tls)?, vec!["cellpace.invalid".to_owned()])
    }

    fn self_signed(key: &KeyPair, names: Vec<String>) -> Result<Self, IdentityError> {
        let mut params = CertificateParams::new(names).map_err(IdentityError::tls)?;
        // Nothing random, so that a secret has one certificate.
        params.serial_number = Some(1.into());
        let certificate = params.self_signed(key).map_err(IdentityError::tls)?;
        let document = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(Self {
            chain: vec![certificate.der().clone()],
            key: document.into(),
            key_hash: Some(Sha256::digest(key.subject_public_key_info()).into()),
        })
    }

    /// A certificate, those that it needs, and the private key, in PEM.
    ///
    /// # Errors
    /// When one of them is missing or cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<Self, IdentityError> {
        let key = PrivateKeyDer::from_pem_slice(text)
            .map_err(|error| IdentityError::Pem(format!("has no private key in PEM: {error}")))?;
        Ok(Self { chain: certificates(text)?, key, key_hash: None })
    }

    /// Certificate and key in PEM.
    pub fn to_pem(&self) -> String {
        let section = |label: &str, der: &[u8]| {
            let lines: Vec<String> = data_encoding::BASE64
                .encode(der)
                .as_bytes()
                .chunks(64)
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect();
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
        };
        let chain: String = self.chain.iter().map(|der| section("CERTIFICATE", der)).collect();
        chain + &section("PRIVATE KEY", self.key.secret_der())
    }

    /// The SHA-256 of its public key in base64, as browsers take it
    /// (`--ignore-certificate-errors-spki-list` of Chromium). `None`: it was read from a file.
    pub fn key_hash(&self) -> Option<String> {
        self.key_hash.map(|hash| data_encoding::BASE64.encode(&hash))
    }

    /// What peers know it by.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }
}

/// The certificates in a PEM text; never empty.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(IdentityError::Pem("has no certificate in PEM".to_owned())),
        Err(error) => Err(IdentityError::Pem(format!("is no PEM: {error}"))),
    }
}

/// Whom a client takes for its server.
#[derive(Debug, Clone)]
pub enum Peer {
    /// Whoever has the certificate with this fingerprint, whatever its names.
    Fingerprint(Fingerprint),
    /// Whoever has one of these certificates, or one for the name asked for that they vouch for.
    Certificates(Vec<CertificateDer<'static>>),
}

impl Peer {
    /// The certificates of a PEM text.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<Self, IdentityError> {
        Ok(Self::Certificates(certificates(text)?))
    }

    /// The fingerprint, or that of the first certificate.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::Fingerprint(fingerprint) => Some(*fingerprint),
            Self::Certificates(certificates) => certificates.first().map(Fingerprint::of),
        }
    }
}

/// Reads a fingerprint.
impl FromStr for Peer {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        Ok(Self::Fingerprint(text.parse()?))
    }
}

/// A server with this identity that speaks `alpn`. With `client` it serves nobody else.
///
/// # Errors
/// When key and certificate do not match.
pub fn server_config(
    own: &Identity,
    client: Option<Fingerprint>,
    alpn: &[u8],
) -> Result<ServerConfig, IdentityError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(IdentityError::tls)?;
    let builder = match client {
        Some(fingerprint) => builder.with_client_cert_verifier(Arc::new(Pinned {
            fingerprints: vec![fingerprint],
            authorities: None,
            provider,
        })),
        None => builder.with_no_client_auth(),
    };
    let made = builder.with_single_cert(own.chain.clone(), own.key.clone_key());
    let mut config = made.map_err(IdentityError::tls)?;
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// A client of `peer` that speaks `alpn`, and shows its own identity if it has one.
///
/// # Errors
/// When a certificate cannot be used.
pub fn client_config(
    peer: &Peer,
    own: Option<&Identity>,
    alpn: &[u8],
) -> Result<ClientConfig, IdentityError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = match peer {
        Peer::Fingerprint(fingerprint) => Pinned {
            fingerprints: vec![*fingerprint],
            authorities: None,
            provider: provider.clone(),
        },
        Peer::Certificates(certificates) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates.iter().cloned());
            let built =
                WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
            Pinned {
                fingerprints: certificates.iter().map(Fingerprint::of).collect(),
                authorities: built.ok(),
                provider: provider.clone(),
            }
        }
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .map_err(IdentityError::tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match own {
        Some(own) => builder
            .with_client_auth_cert(own.chain.clone(), own.key.clone_key())
            .map_err(IdentityError::tls)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// Takes peers whose certificate is known, and for servers those that a known one vouches for.
#[derive(Debug)]
struct Pinned {
    fingerprints: Vec<Fingerprint>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn knows(&self, certificate: &CertificateDer<'_>) -> bool {
        self.fingerprints.contains(&Fingerprint::of(certificate))
    }

    /// The peer has the key of its certificate.
    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    /// QUIC is TLS 1.3.
    fn refuse_tls12() -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.knows(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(known) => {
                known.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
            }
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.knows(end_entity) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_one_identity() {
        let of = |secret| Identity::from_secret(&[secret; 32]).unwrap().fingerprint();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn identities_and_fingerprints_are_read_as_they_are_written() {
        let identity = Identity::generate(["localhost".to_owned()]).unwrap();
        let again = Identity::from_pem(identity.to_pem().as_bytes()).unwrap();
        assert_eq!(again.fingerprint(), identity.fingerprint());
        server_config(&again, None, b"h3").unwrap();
        let text = identity.fingerprint().to_string();
        assert_eq!(text.parse::<Fingerprint>().unwrap(), identity.fingerprint());
        for wrong in ["", "sha256:", "sha256:00", &text[1..], &format!("{text}0")] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
        assert!(Identity::from_pem(b"").unwrap_err().to_string().contains("no private key"));
        assert!(Peer::from_pem(b"nothing").unwrap_err().to_string().contains("no certificate"));
    }
}
