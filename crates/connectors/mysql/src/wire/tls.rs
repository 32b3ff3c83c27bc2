//! TLS on the connection, and how much of the server's certificate is believed.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use serde::{Deserialize, Serialize};

use super::packet::Socket;
use super::{WireError, WireResult};

/// As the servers' own clients name it.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    /// Never encrypted.
    Disabled,
    /// Encrypted where the server offers it; the certificate is not checked.
    #[default]
    Preferred,
    /// Always encrypted; the certificate is not checked.
    Required,
    /// Always encrypted; the certificate must come from a known authority.
    VerifyCa,
    /// Always encrypted; the certificate must come from a known authority and name the host.
    VerifyIdentity,
}

#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    pub mode: SslMode,
    /// A PEM file of authorities; the public ones where there is none.
    pub ca: Option<String>,
    /// PEM files of the client's own certificate and key.
    pub identity: Option<(String, String)>,
}

pub(super) async fn start(
    socket: Box<dyn Socket>,
    host: &str,
    options: &TlsOptions,
) -> WireResult<tokio_rustls::client::TlsStream<Box<dyn Socket>>> {
    let config = client_config(options)?;
    let name = ServerName::try_from(host.to_string())
        .map_err(|_| WireError::Tls("the host is not a name a certificate could carry".into()))?;
    tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
        // What rustls refuses comes as `InvalidData`; the rest is the network's.
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => WireError::Tls(e.to_string()),
            _ => WireError::Io(e),
        })
}

fn client_config(options: &TlsOptions) -> WireResult<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| WireError::Tls(e.to_string()))?;
    let verifier: Arc<dyn ServerCertVerifier> = match options.mode {
        SslMode::Disabled | SslMode::Preferred | SslMode::Required => {
            Arc::new(Unchecked(provider.signature_verification_algorithms.supported_schemes()))
        }
        SslMode::VerifyCa | SslMode::VerifyIdentity => {
            let inner =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots(options)?), provider)
                    .build()
                    .map_err(|e| WireError::Tls(e.to_string()))?;
            if options.mode == SslMode::VerifyCa { Arc::new(AnyName(inner)) } else { inner }
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    match &options.identity {
        None => Ok(builder.with_no_client_auth()),
        Some((cert, key)) => {
            let chain = certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable("ssl.key", &e))?;
            builder.with_client_auth_cert(chain, key).map_err(|e| WireError::Tls(e.to_string()))
        }
    }
}

fn roots(options: &TlsOptions) -> WireResult<RootCertStore> {
    let mut store = RootCertStore::empty();
    match &options.ca {
        None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            for certificate in certificates(path)? {
                store.add(certificate).map_err(|e| unreadable("ssl.ca", &e))?;
            }
        }
    }
    Ok(store)
}

fn certificates(path: &str) -> WireResult<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(list) if list.is_empty() => {
            Err(WireError::Tls(format!("there is no certificate in {path}")))
        }
        Ok(list) => Ok(list),
        Err(e) => Err(unreadable(path, &e)),
    }
}

fn unreadable(what: &str, e: &dyn std::fmt::Display) -> WireError {
    WireError::Tls(format!("{what} cannot be read: {e}"))
}

/// Encrypts and believes anyone: what `preferred` and `required` mean for the servers' own clients, whose servers
/// make their certificates by themselves.
#[derive(Debug)]
struct Unchecked(Vec<SignatureScheme>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

/// Checks the authority but not the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
