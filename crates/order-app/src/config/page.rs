//! `docs/settings.md` shows the table as it is.

use std::fmt::Write as _;

use super::{Config, Given, SETTINGS, Setting};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
const BEGIN: &str = "<!-- Generated: UPDATE_DOCS=1 cargo test -p order-app settings_page -->\n";

#[test]
fn the_settings_page_shows_every_setting() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (introduction, tables) = page.split_once(BEGIN).unwrap();
    let expected = render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{introduction}{BEGIN}{expected}")).unwrap();
    } else {
        assert_eq!(tables, expected, "regenerate it as its comment says");
    }
}

#[test]
fn the_file_on_the_settings_page_is_accepted() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let path = std::env::temp_dir().join(format!("orderd_page_{}.toml", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let given = Given::collect(|_| None, std::iter::empty(), Some(&path)).unwrap();
    std::fs::remove_file(path).unwrap();
    Config::parse(&given).unwrap();
}

fn render() -> String {
    let mut text = String::new();
    for group in SETTINGS.chunk_by(|one, next| one.group == next.group) {
        let heading = group[0].group;
        write!(
            text,
            "\n## {heading}\n\n| environment | flag | default | |\n|---|---|---|---|\n"
        )
        .unwrap();
        for setting in group {
            writeln!(text, "{}", row(setting)).unwrap();
        }
    }
    text
}

fn row(setting: &Setting) -> String {
    let default = match setting.default {
        "" => String::new(),
        value => format!("`{value}`"),
    };
    let Setting {
        env, flag, help, ..
    } = setting;
    format!("| `{env}` | `--{flag}` | {default} | {help} |")
}
