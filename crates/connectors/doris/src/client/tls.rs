//! Which certificates are believed: those of the public authorities, or of the user's own.

use std::sync::Arc;

use lakeward_core::{Error, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

pub(super) fn client_config(ca: Option<&str>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let unreadable = |e: &dyn std::fmt::Display| {
                Error::config(format!(
                    "the certificates of doris.tls.ca-certificate-path cannot be read: {e}"
                ))
                .with("path", path)
            };
            let certificates = CertificateDer::pem_file_iter(path).map_err(|e| unreadable(&e))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|e| unreadable(&e))?;
                roots.add(certificate).map_err(|e| unreadable(&e))?;
            }
            if roots.is_empty() {
                return Err(unreadable(&"there is none in the file"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::bug("could not set TLS up").with_source(e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
