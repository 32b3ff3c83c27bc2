//! What the file access of `iceberg` does not offer for S3: looking whether a bucket can be reached, and listing it.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use iceberg::io::{
    CLIENT_REGION, S3_ACCESS_KEY_ID, S3_ALLOW_ANONYMOUS, S3_ASSUME_ROLE_ARN,
    S3_ASSUME_ROLE_EXTERNAL_ID, S3_ASSUME_ROLE_SESSION_NAME, S3_DISABLE_CONFIG_LOAD,
    S3_DISABLE_EC2_METADATA, S3_ENDPOINT, S3_PATH_STYLE_ACCESS, S3_REGION, S3_SECRET_ACCESS_KEY,
    S3_SESSION_TOKEN,
};
use lakeward_core::{Error, ErrorKind, Result};
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::services::S3Config;
use opendal::{EntryMode, Operator};

use crate::storage::ListedFile;
use crate::store_error::{StoreResultExt, is_refusal, reason};

/// A bucket of S3, with the same properties as the lake's files are read with.
#[derive(Debug, Clone)]
pub struct Bucket {
    operator: Operator,
    /// `s3://bucket/`
    root: String,
}

impl Bucket {
    /// The bucket of a location; `None` when it is none of S3.
    ///
    /// # Errors
    /// `Config` for a location without a bucket.
    pub fn of(location: &str, properties: &BTreeMap<String, String>) -> Result<Option<Self>> {
        let Some((scheme @ ("s3" | "s3a"), rest)) = location.split_once("://") else {
            return Ok(None);
        };
        let bucket = rest.split('/').next().unwrap_or_default();
        if bucket.is_empty() {
            return Err(Error::config("a warehouse on S3 needs a bucket: s3://bucket/path"));
        }
        let unusable = |e: opendal::Error| {
            Error::config("the S3 options of the catalog cannot be used").with_source(reason(&e))
        };
        let mut config = config(properties);
        config.bucket = bucket.to_string();
        let operator = Operator::from_config(config).map_err(unusable)?;
        // A store that is silent is an error after a while, and tried again.
        let operator = operator.layer(TimeoutLayer::new()).layer(RetryLayer::new());
        Ok(Some(Self { operator: operator.finish(), root: format!("{scheme}://{bucket}/") }))
    }

    /// Lists one object of a folder, which needs the bucket and the permission to see it.
    ///
    /// # Errors
    /// `Config` when the store refuses, `Transient` when it cannot be reached.
    pub async fn probe(&self, folder: &str) -> Result<()> {
        let path = self.path_of(folder).unwrap_or_default();
        let looked = async {
            let mut found = self.operator.lister_with(&path).limit(1).await?;
            found.try_next().await
        };
        looked.await.map(drop).map_err(|e| {
            let kind = if is_refusal(&e) { ErrorKind::Config } else { ErrorKind::Transient };
            let advice = match kind {
                ErrorKind::Config => "; see to the bucket, the keys and their permissions",
                _ => "; is catalog.properties.s3.endpoint right, and s3.path-style-access?",
            };
            Error::new(kind, format!("the warehouse {folder} cannot be used{advice}"))
                .with_source(reason(&e))
        })
    }

    /// All files below a folder; `None` for a folder of another bucket.
    pub async fn list(&self, folder: &str) -> Result<Option<Vec<ListedFile>>> {
        let Some(path) = self.path_of(folder) else { return Ok(None) };
        let failed = || format!("could not list {folder}");
        let mut found = self.operator.lister_with(&path).recursive(true).await.or_store(failed())?;
        let mut files = Vec::new();
        while let Some(entry) = found.try_next().await.or_store(failed())? {
            if entry.metadata().mode() == EntryMode::FILE {
                files.push(ListedFile {
                    location: format!("{}{}", self.root, entry.path()),
                    name: entry.name().to_string(),
                    size_bytes: entry.metadata().content_length(),
                });
            }
        }
        Ok(Some(files))
    }

    fn path_of(&self, folder: &str) -> Option<String> {
        let path = folder.strip_prefix(&self.root).or_else(|| {
            // The root itself, without its slash.
            (self.root.strip_suffix('/') == Some(folder)).then_some("")
        })?;
        let path = path.trim_matches('/');
        Some(if path.is_empty() { "/".into() } else { format!("{path}/") })
    }
}

/// As the file access reads the same keys.
fn config(properties: &BTreeMap<String, String>) -> S3Config {
    let text = |key: &str| properties.get(key).cloned();
    let is_set = |key: &str| {
        let value = text(key).unwrap_or_default().to_lowercase();
        matches!(value.as_str(), "true" | "t" | "1" | "on")
    };
    let mut config = S3Config::default();
    config.endpoint = text(S3_ENDPOINT);
    config.region = text(CLIENT_REGION).or_else(|| text(S3_REGION));
    config.access_key_id = text(S3_ACCESS_KEY_ID);
    config.secret_access_key = text(S3_SECRET_ACCESS_KEY);
    config.session_token = text(S3_SESSION_TOKEN);
    config.enable_virtual_host_style = !is_set(S3_PATH_STYLE_ACCESS);
    config.role_arn = text(S3_ASSUME_ROLE_ARN);
    config.external_id = text(S3_ASSUME_ROLE_EXTERNAL_ID);
    config.role_session_name = text(S3_ASSUME_ROLE_SESSION_NAME);
    config.skip_signature = is_set(S3_ALLOW_ANONYMOUS);
    config.disable_ec2_metadata = is_set(S3_DISABLE_EC2_METADATA);
    config.disable_config_load = is_set(S3_DISABLE_CONFIG_LOAD);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_below_the_bucket() {
        let properties = BTreeMap::from([(S3_REGION.to_string(), "eu-central-1".to_string())]);
        let bucket = Bucket::of("s3://lake/wh", &properties).expect("usable").expect("of S3");
        let path = |folder: &str| bucket.path_of(folder);
        assert_eq!(path("s3://lake/wh/db/t").as_deref(), Some("wh/db/t/"));
        assert_eq!(path("s3://lake/wh/").as_deref(), Some("wh/"));
        assert_eq!(path("s3://lake").as_deref(), Some("/"));
        assert_eq!(path("s3://lake2/wh"), None);
        assert!(Bucket::of("file:///x", &properties).expect("usable").is_none());
        assert!(Bucket::of("s3:///x", &properties).is_err());
    }
}
