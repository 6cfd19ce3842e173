//! The file: its lines, its changes, its new tokens.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use order_testkit::unique_name;
use time::OffsetDateTime;
use time::macros::datetime;

use super::reload::{Change, Reloader};
use super::*;

const NOW: OffsetDateTime = datetime!(2026-11-29 08:00 UTC);

/// `a-secret` and its digest.
const SECRET: &str = "a-secret";
const DIGEST: &str = "sha256:b4d87524393b45e7793e23f192e6a85a10bae6fb2679e996a7acb8ca60b4c88d";

/// Issues a token; its secret.
fn issued(path: &Path, new: &NewToken) -> Result<String, IssueError> {
    let mut secret = String::new();
    issue(path, new, |made| {
        secret.push_str(made);
        Ok(())
    })?;
    Ok(secret)
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(unique_name("orderd_tokens"));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("tokens")
    }

    fn holding(text: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        fs::write(folder.file(), text).unwrap();
        folder
    }

    fn load(&self) -> Result<Tokens, Error> {
        Tokens::load(&self.file())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind at worst, in a folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn line_of(name: &str, secret: &str) -> String {
    line::format(&Token {
        name: name.parse().unwrap(),
        scopes: vec![Scope::Ops],
        expires: None,
        digest: SecretDigest::of(secret.as_bytes()),
    })
}

fn new_token(name: &str) -> NewToken {
    NewToken {
        name: name.parse().unwrap(),
        scopes: vec![Scope::OrdersRead, Scope::Ops],
        expires: None,
    }
}

fn knows(tokens: &Tokens, secret: &str) -> bool {
    tokens.holder(secret.as_bytes(), NOW).is_ok()
}

#[test]
fn a_line_is_read_as_it_was_written() {
    let text = line_of("shop", SECRET);
    let token = line::parse(&text).unwrap().unwrap();
    assert_eq!(line::format(&token), text);
    for comment in ["", "   ", "# shop ops never", "\t# x\r"] {
        assert!(line::parse(comment).unwrap().is_none(), "{comment:?}");
    }
    let commented = format!("{}  # of the shop\r", text.trim_end());
    assert_eq!(
        line::format(&line::parse(&commented).unwrap().unwrap()),
        text
    );
}

#[test]
fn wrong_lines_say_what_is_wrong_and_nothing_of_what_is_there() {
    for (text, said) in [
        ("shop ops never", "3 field(s)"),
        ("shop ops never DIGEST more", "5 field(s)"),
        ("-shop ops never DIGEST", "the name"),
        ("Anonymous ops never DIGEST", "the name"),
        ("orderd ops never DIGEST", "the name"),
        ("shop admin never DIGEST", "the scopes"),
        ("shop ops, never DIGEST", "the scopes"),
        ("shop orders:read,OPS never DIGEST", "the scopes"),
        ("shop ops 2026-11-29 DIGEST", "the expiry"),
        ("shop ops 2026-11-29T08:00:00 DIGEST", "the expiry"),
        ("shop ops 2026-11-29x08:00:00Z DIGEST", "the expiry"),
        ("shop ops 90d DIGEST", "the expiry"),
        ("shop ops never planted-secret", "the digest"),
        ("shop ops never sha256:planted", "the digest"),
        ("shop ops never DIGESTa", "the digest"),
        ("planted ops! never DIGEST", "the scopes"),
    ] {
        let text = format!("# tokens\n\n{}\n", text.replace("DIGEST", DIGEST));
        let error = Folder::holding(&text).load().unwrap_err().to_string();
        assert!(error.starts_with("line 3 of the tokens file"), "{error}");
        assert!(error.contains(said), "{text}: {error}");
        assert!(
            !error.contains("planted") && !error.contains(DIGEST),
            "{error}"
        );
    }
    let utf8 = Folder::holding(b"# caf\xe9\n").load().unwrap_err();
    assert!(utf8.to_string().contains("UTF-8"), "{utf8}");
    let twice = format!("{}{}", line_of("a", SECRET), line_of("b", SECRET));
    let twice = Folder::holding(twice).load().unwrap_err().to_string();
    assert!(
        twice.contains("line 2") && twice.ends_with("the digest of line 1"),
        "{twice}"
    );
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let folder = Folder::new();
    let missing = folder.load().unwrap_err().to_string();
    assert!(
        missing.contains("cannot be read: No such file"),
        "{missing}"
    );
    fs::create_dir(folder.file()).unwrap();
    let error = folder.load().unwrap_err().to_string();
    assert!(error.contains("isn't a regular file"), "{error}");
    let large = Folder::holding("#".repeat(1024 * 1024 + 1)).load();
    assert!(large.unwrap_err().to_string().contains("1 MiB"));
    assert_eq!(Folder::holding("").load().unwrap().count(), 0);
}

#[test]
fn a_secret_is_good_until_its_time_and_no_other_is() {
    let digest = |secret: &str| {
        let line = line_of("x", secret);
        line.split_whitespace().last().unwrap().to_owned()
    };
    let tokens = Folder::holding(format!(
        "old ops 2026-11-29T08:00:00Z {}\nnew ops 2026-11-29T08:00:01Z {}\nnew orders:read never {}\n",
        digest("one"),
        digest("two"),
        digest("three"),
    ))
    .load()
    .unwrap();
    let holder = |secret: &str, now| {
        let token = tokens.holder(secret.as_bytes(), now);
        token.map(|token| (token.name.to_string(), token.scopes))
    };
    assert_eq!(holder("one", NOW), Err(NotLetIn::Expired));
    assert_eq!(holder("two", NOW), Ok(("new".to_owned(), vec![Scope::Ops])));
    let later = NOW + Duration::from_secs(1);
    assert_eq!(holder("two", later), Err(NotLetIn::Expired));
    // Of the same name, for the time in which one takes over from the other.
    let three = Ok(("new".to_owned(), vec![Scope::OrdersRead]));
    assert_eq!(holder("three", later), three);
    for unknown in ["", "four", &digest("three"), "Three"] {
        assert_eq!(holder(unknown, NOW), Err(NotLetIn::Unknown), "{unknown}");
    }
}

#[test]
fn a_new_token_is_printed_once_and_its_digest_is_stored() {
    let folder = Folder::new();
    let first = issued(&folder.file(), &new_token("shop")).unwrap();
    let second = NewToken {
        expires: Some(Duration::from_hours(24)),
        ..new_token("shop")
    };
    let second = issued(&folder.file(), &second).unwrap();
    assert_ne!(first, second);
    let random = first.strip_prefix("orderd_").unwrap();
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    assert!(random.len() == 64 && random.chars().all(is_hex));

    let mode = fs::metadata(folder.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(folder.file()).unwrap();
    assert!(!text.contains(random), "the secret itself is not kept");
    let tokens = folder.load().unwrap();
    let holder = |secret: &str, now| tokens.holder(secret.as_bytes(), now);
    let now = crate::clock::now();
    assert_eq!(holder(&first, now).unwrap().scopes, new_token("x").scopes);
    assert!(holder(&second, now + Duration::from_hours(23)).is_ok());
    let after = holder(&second, now + Duration::from_hours(25));
    assert_eq!(after.unwrap_err(), NotLetIn::Expired);
}

#[test]
fn a_token_is_added_to_what_others_wrote() {
    let folder = Folder::holding(line_of("shop", SECRET).trim_end());
    let secret = issued(&folder.file(), &new_token("ops")).unwrap();
    let tokens = folder.load().unwrap();
    assert!(knows(&tokens, SECRET) && knows(&tokens, &secret));

    let folder = Folder::holding("half a line\n");
    let refused = issued(&folder.file(), &new_token("ops")).unwrap_err();
    assert!(matches!(refused, IssueError::File(_)), "{refused}");
    assert_eq!(fs::read(folder.file()).unwrap(), b"half a line\n");
}

#[test]
fn tokens_made_at_once_are_all_there() {
    let folder = Folder::new();
    let path = folder.file();
    let made: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| issued(&path, &new_token("many")).unwrap()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let tokens = folder.load().unwrap();
    assert_eq!(tokens.count(), made.len());
    assert!(made.iter().all(|secret| knows(&tokens, secret)));
}

#[test]
fn a_change_is_taken_when_it_is_seen_twice() {
    let folder = Folder::holding(line_of("a", "one"));
    let tokens = folder.load().unwrap();
    let mut reloader = Reloader::new(tokens.clone());
    let mut check = |expect: &[Change]| {
        let changes: Vec<Change> = expect.iter().map(|_| reloader.check()).collect();
        assert_eq!(changes, expect);
    };
    check(&[Change::Same, Change::Same]);

    // In place, of the same length.
    fs::write(folder.file(), line_of("a", "two")).unwrap();
    check(&[Change::Unsettled, Change::Taken, Change::Same]);
    assert!(!knows(&tokens, "one") && knows(&tokens, "two"));

    // An editor that empties the file before it writes.
    fs::write(folder.file(), "").unwrap();
    check(&[Change::Unsettled]);
    fs::write(folder.file(), line_of("a", "three")).unwrap();
    check(&[Change::Unsettled, Change::Taken]);
    assert!(!knows(&tokens, "two") && knows(&tokens, "three"));

    // Another file in its place.
    let beside = folder.0.join("beside");
    fs::write(&beside, line_of("a", "four")).unwrap();
    fs::rename(&beside, folder.file()).unwrap();
    check(&[Change::Unsettled, Change::Taken]);
    assert!(!knows(&tokens, "three") && knows(&tokens, "four"));

    // Broken, gone, unreadable: what held before still does. Mended: it holds.
    for broken in [Some("x"), None] {
        match broken {
            Some(text) => fs::write(folder.file(), text).unwrap(),
            None => fs::remove_file(folder.file()).unwrap(),
        }
        check(&[Change::Unsettled, Change::Broken, Change::Same]);
        assert!(knows(&tokens, "four"));
    }
    fs::write(folder.file(), "# nobody\n").unwrap();
    check(&[Change::Unsettled, Change::Taken]);
    assert!(!knows(&tokens, "four"));
}

#[test]
fn a_symbolic_link_is_followed_wherever_it_leads() {
    // As Kubernetes mounts a secret: the file is a link into `..data`, which is exchanged.
    let folder = Folder::new();
    let version = |name: &str, secret: &str| {
        fs::create_dir(folder.0.join(name)).unwrap();
        fs::write(folder.0.join(name).join("tokens"), line_of("a", secret)).unwrap();
    };
    let point = |to: &str| {
        let link = folder.0.join("..data_tmp");
        symlink(to, &link).unwrap();
        fs::rename(link, folder.0.join("..data")).unwrap();
    };
    version("..1", "one");
    version("..2", "two");
    point("..1");
    symlink(Path::new("..data/tokens"), folder.file()).unwrap();
    let tokens = folder.load().unwrap();
    let mut reloader = Reloader::new(tokens.clone());
    assert_eq!(reloader.check(), Change::Same);
    point("..2");
    assert_eq!(
        [reloader.check(), reloader.check()],
        [Change::Unsettled, Change::Taken]
    );
    assert!(!knows(&tokens, "one") && knows(&tokens, "two"));
}

#[test]
fn a_token_whose_secret_is_not_handed_over_is_not_added() {
    let folder = Folder::new();
    issued(&folder.file(), &new_token("first")).unwrap();
    let before = fs::read(folder.file()).unwrap();
    let refused = issue(&folder.file(), &new_token("second"), |_| {
        Err(std::io::ErrorKind::StorageFull.into())
    });
    assert!(matches!(refused, Err(IssueError::HandOver(_))));
    assert_eq!(fs::read(folder.file()).unwrap(), before);
}
