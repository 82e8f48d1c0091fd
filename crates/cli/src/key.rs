//! `cellpace key` and `--key`: a secret that both sides of `send`, `recv` and `probe` share.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use crate::error::CommandError;

/// Arguments of `cellpace key`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace key path.key
  cellpace recv --key path.key --once & cellpace send 127.0.0.1 --key path.key --bytes 5MB

Between two machines, copy the file to the other one (scp path.key HOST:) and give --key path.key
on both. Whoever has the key can send, receive and measure; nobody else gets an answer. It
authenticates, and encrypts nothing: who is on the path can read all that is sent.")]
pub(crate) struct KeyArgs {
    /// Where the new key goes; only you may read it, and nothing is overwritten
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `--key`.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyOption {
    /// A key that both sides have, made by `cellpace key`: who does not have it gets no answer
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// The beginning of a key's file, with the version of its form.
const PREFIX: &str = "cellpace-key-1:";

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// More than this is not read of a file that should hold a key.
const MAX_FILE_BYTES: u64 = 1024;

impl KeyOption {
    /// Whether there is one.
    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some()
    }

    /// The secret, or `None` without a key.
    pub(crate) fn secret(&self) -> Result<Option<[u8; SECRET_BYTES]>, CommandError> {
        let Some(path) = &self.key else { return Ok(None) };
        read(path)
            .map(Some)
            .map_err(|why| CommandError::usage(format!("--key {}: {why}", path.display())))
    }
}

pub(crate) fn run(args: &KeyArgs) -> Result<ExitCode, CommandError> {
    create(&args.file)
        .map_err(|why| CommandError::failed(format!("{}: {why}", args.file.display())))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a key from the system's randomness.
fn create(path: &Path) -> Result<(), String> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => "it exists already, and may be in use".to_owned(),
        _ => error.to_string(),
    })?;
    write(file, &secret).map_err(|error| {
        // Half a key is of no use, and would be in the way of the next try.
        let _ = fs::remove_file(path);
        error.to_string()
    })
}

fn write(mut file: File, secret: &[u8]) -> io::Result<()> {
    writeln!(file, "{PREFIX}{}", HEXLOWER.encode_display(secret))?;
    file.sync_all()
}

/// Reads a key that only its owner may read. Nothing of the content is in the errors.
fn read(path: &Path) -> Result<[u8; SECRET_BYTES], String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let facts = file.metadata().map_err(|error| error.to_string())?;
    if facts.is_dir() {
        return Err("this is a folder, not a file".to_owned());
    }
    let mode = facts.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "others may read or change this key (its mode is {mode:04o}); chmod 600 makes it yours"
        ));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(|error| error.to_string())?;
    parse(&text).map_err(|why| {
        format!("not a key: {why}; a key is one line that begins with {PREFIX}, see `cellpace key`")
    })
}

fn parse(text: &[u8]) -> Result<[u8; SECRET_BYTES], String> {
    let line = text.trim_ascii();
    if line.is_empty() {
        return Err("it is empty".to_owned());
    }
    let prefix = || format!("it does not begin with {PREFIX}");
    let digits = line.strip_prefix(PREFIX.as_bytes()).ok_or_else(prefix)?;
    if digits.len() != 2 * SECRET_BYTES {
        let (found, right) = (digits.len(), 2 * SECRET_BYTES);
        return Err(format!("{found} characters in place of {right} follow {PREFIX}"));
    }
    let mut secret = [0; SECRET_BYTES];
    HEXLOWER_PERMISSIVE.decode_mut(digits, &mut secret).map_err(|error| {
        format!("character {} is no hexadecimal digit", PREFIX.len() + error.error.position + 1)
    })?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    /// A file with this content and these permissions.
    fn file(folder: &Path, content: &[u8], mode: u32) -> PathBuf {
        let path = folder.join("path.key");
        let _ = fs::remove_file(&path);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_key_is_read_as_it_was_made_and_no_two_are_alike() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["a.key", "b.key"].map(|name| folder.path().join(name));
        create(&first).unwrap();
        create(&second).unwrap();
        assert_ne!(read(&first).unwrap(), read(&second).unwrap());
        let text = fs::read_to_string(&first).unwrap();
        assert_eq!((text.lines().count(), text.len()), (1, PREFIX.len() + 64 + 1));
        assert_eq!(fs::metadata(&first).unwrap().mode() & 0o777, 0o600);
        let error = create(&first).unwrap_err();
        assert!(error.contains("exists already"), "{error}");
        assert_eq!(fs::read_to_string(&first).unwrap(), text, "nothing is overwritten");
        let error = create(&folder.path().join("missing/a.key")).unwrap_err();
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_key_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let secret: [u8; 32] = std::array::from_fn(|at| at as u8);
        let good = format!("{PREFIX}{DIGITS}");
        for text in [
            good.clone(),
            good.clone() + "\n",
            good.to_uppercase().replace("CELLPACE-KEY", "cellpace-key") + "\r\n",
        ] {
            assert_eq!(read(&file(folder.path(), text.as_bytes(), 0o600)), Ok(secret), "{text:?}");
        }
        assert_eq!(read(&file(folder.path(), good.as_bytes(), 0o400)), Ok(secret));
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_reason_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let good = format!("{PREFIX}{DIGITS}");
        let cases: [(Vec<u8>, &str); 9] = [
            (b"".to_vec(), "it is empty"),
            (b" \n\n".to_vec(), "it is empty"),
            (DIGITS.into(), "does not begin with cellpace-key-1:"),
            (good.replace("-1:", "-2:").into(), "does not begin with cellpace-key-1:"),
            (good[..good.len() - 1].into(), "63 characters in place of 64"),
            ((good.clone() + "0").into(), "65 characters in place of 64"),
            ((good.clone() + "\n" + &good).into(), "in place of 64"),
            (good.replace("0102", "01g2").into(), "character 20 is no hexadecimal digit"),
            (vec![0xff; 1 << 20], "does not begin with cellpace-key-1:"),
        ];
        for (content, says) in cases {
            let error = read(&file(folder.path(), &content, 0o600)).unwrap_err();
            assert!(error.contains(says) && error.starts_with("not a key: "), "{error}");
            assert!(!error.contains("0405"), "nothing of it is shown: {error}");
        }
        assert!(read(folder.path()).is_err());
        assert!(read(&folder.path().join("missing")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_key_that_others_may_read_or_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let good = format!("{PREFIX}{DIGITS}");
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o610] {
            let path = file(folder.path(), good.as_bytes(), mode);
            let link = folder.path().join("link");
            let _ = fs::remove_file(&link);
            symlink(&path, &link).unwrap();
            for path in [path, link] {
                let error = read(&path).unwrap_err();
                assert!(
                    error.contains("others may read") && error.contains("chmod 600"),
                    "{error}"
                );
                assert!(error.contains(&format!("{mode:04o}")), "{error}");
            }
        }
    }
}
