//! Collects the settings that were given: flags and environment, then a file. Refuses wrong names and values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::kubernetes;
use super::masking::masked;
use super::settings::{SETTINGS, Setting};

/// A setting that is wrong or doesn't exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A value that isn't allowed.
    #[error("{name} is {value:?}, but must be {allowed}")]
    Invalid {
        /// The setting, as it was given.
        name: String,
        /// Its value; secrets are masked.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A name that isn't a setting.
    #[error("{name} isn't a setting; the settings are {known}{hint}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
        /// Where it may come from.
        hint: &'static str,
    },
    /// The file can't be read.
    #[error("{path} cannot be read as TOML: {why}")]
    File {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

/// Given values by flag, and where each came from.
pub struct Given {
    values: BTreeMap<&'static str, (String, String)>,
}

impl Given {
    /// Collects what was given: flags and environment win over the file.
    ///
    /// # Errors
    /// If the file can't be read or holds an unknown key, the environment an unknown `ORDERD_`
    /// variable, or a value a control character.
    pub fn collect(
        given: impl Fn(&Setting) -> Option<(String, String)>,
        environment: impl Iterator<Item = String>,
        file: Option<&Path>,
    ) -> Result<Self, Error> {
        for name in environment {
            let is_setting = SETTINGS.iter().any(|known| known.env == name);
            if name.starts_with("ORDERD_") && !is_setting && !kubernetes::is_of_orderd(&name) {
                let hint = if kubernetes::is_of_a_service(&name) {
                    ". Kubernetes sets it for a service whose name begins with orderd-: \
                     enableServiceLinks: false in the pod keeps it out"
                } else {
                    ""
                };
                return Err(unknown(name, hint, |setting| setting.env.to_owned()));
            }
        }
        let mut values = match file {
            Some(path) => read_file(path)?,
            None => BTreeMap::new(),
        };
        for setting in SETTINGS {
            if let Some(found) = given(setting) {
                values.insert(setting.flag, found);
            }
        }
        for (name, value) in values.values_mut() {
            *value = tidy(name, value)?;
        }
        Ok(Self { values })
    }

    pub(super) fn get(&self, flag: &'static str) -> (String, String) {
        let setting = SETTINGS
            .iter()
            .find(|setting| setting.flag == flag)
            .expect("settings are asked for by their names");
        self.values
            .get(flag)
            .cloned()
            .unwrap_or_else(|| (setting.env.to_owned(), setting.default.to_owned()))
    }

    /// The name of a file, if one is given. An empty name is refused: it could silently turn off what the
    /// file is for.
    pub(super) fn file(&self, flag: &'static str) -> Result<Option<PathBuf>, Error> {
        if !self.values.contains_key(flag) {
            return Ok(None);
        }
        let allowed = "the name of a file, or left out";
        self.parse(flag, allowed, |text| {
            (!text.is_empty()).then(|| Some(PathBuf::from(text)))
        })
    }

    /// A file that is read once, at the start.
    pub(super) fn readable_file(&self, flag: &'static str) -> Result<Option<PathBuf>, Error> {
        let Some(path) = self.file(flag)? else {
            return Ok(None);
        };
        self.parse(flag, "the name of a file that can be read", |_| {
            std::fs::read(&path).is_ok().then(|| Some(path.clone()))
        })
    }

    pub(super) fn parse<T>(
        &self,
        flag: &'static str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let (name, value) = self.get(flag);
        parse(&value).ok_or_else(|| Error::Invalid {
            name,
            value: masked(&value),
            allowed: allowed.to_owned(),
        })
    }
}

/// The value without the white space around it, which is usually left over from a file or a shell.
pub(crate) fn tidy(name: &str, value: &str) -> Result<String, Error> {
    let trimmed = value.trim();
    if trimmed.contains(char::is_control) {
        return Err(Error::Invalid {
            name: name.to_owned(),
            value: masked(trimmed),
            allowed: "without control characters".to_owned(),
        });
    }
    Ok(trimmed.to_owned())
}

fn read_file(path: &Path) -> Result<BTreeMap<&'static str, (String, String)>, Error> {
    let shown = path.display().to_string();
    let fault = |why: String| Error::File {
        path: shown.clone(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| fault(error.message().to_owned()))?;
    let mut values = BTreeMap::new();
    for (key, value) in table {
        let setting = SETTINGS.iter().find(|setting| toml_key(setting) == key);
        let Some(setting) = setting else {
            return Err(unknown(key, "", toml_key));
        };
        let name = format!("{key} in {shown}");
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Integer(number) => number.to_string(),
            other => {
                let allowed = "a string, a number or a boolean".to_owned();
                return Err(Error::Invalid {
                    name,
                    value: other.type_str().to_owned(),
                    allowed,
                });
            }
        };
        values.insert(setting.flag, (name, value));
    }
    Ok(values)
}

fn toml_key(setting: &Setting) -> String {
    setting.flag.replace('-', "_")
}

fn unknown(name: String, hint: &'static str, shown: impl Fn(&Setting) -> String) -> Error {
    let known: Vec<String> = SETTINGS.iter().map(shown).collect();
    Error::Unknown {
        name,
        known: known.join(", "),
        hint,
    }
}
