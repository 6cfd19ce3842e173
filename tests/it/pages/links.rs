//! What a page names is there: links, files, commands with their flags.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Command;

use super::blocks::blocks;
use crate::tidy::{read, root};

/// Every page for people, as a path from the root.
pub(super) fn pages() -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["", "docs"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let path = path.strip_prefix(root()).unwrap();
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    assert!(found.len() > 10, "{found:?}");
    found
}

/// A page without its fenced blocks.
fn prose(page: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in page.lines() {
        let fence = line.starts_with("```");
        inside ^= fence;
        if !inside && !fence {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The headings of a page as anchors.
fn anchors(page: &str) -> BTreeSet<String> {
    prose(page)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            heading
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

/// The inline code of a page.
pub(super) fn code(page: &str) -> Vec<String> {
    let prose = prose(page);
    prose.split('`').skip(1).step_by(2).map(one_line).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_link_leads_somewhere() {
    let mut links = 0;
    for page in pages() {
        let text = read(&page);
        for link in prose(&text).split("](").skip(1) {
            let (link, _) = link.split_once(')').unwrap();
            if link.contains("://") {
                continue;
            }
            links += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => {
                    let folder = Path::new(&page).parent().unwrap();
                    folder.join(file).to_str().unwrap().to_owned()
                }
            };
            assert!(root().join(&target).exists(), "{page}: {link}");
            assert!(
                anchor.is_empty() || anchors(&read(&target)).contains(anchor),
                "{page}: {link}, but {target} has {:?}",
                anchors(&read(&target))
            );
        }
    }
    assert!(links > 40, "{links}");
}

/// In pages about the tree; `{a,b}` stands for both.
#[test]
fn every_file_that_is_named_is_there() {
    let folders = [
        "crates/",
        "tests/",
        "scripts/",
        "docs/",
        "deploy/",
        "migrations/",
        "openapi/",
    ];
    let mut files = 0;
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        for code in code(&read(page)) {
            let path = code.split(' ').next().unwrap_or_default();
            let in_tree = folders.iter().any(|folder| path.starts_with(folder));
            if !in_tree || path.contains(['<', '*', '…']) {
                continue;
            }
            for path in alternatives(path) {
                files += 1;
                assert!(root().join(&path).exists(), "{page}: {path}");
            }
        }
    }
    assert!(files > 60, "{files}");
}

fn alternatives(path: &str) -> Vec<String> {
    let Some((start, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (names, end) = rest.split_once('}').unwrap();
    names
        .split(',')
        .map(|name| format!("{start}{name}{end}"))
        .collect()
}

/// In prose and in blocks, tested or not.
#[test]
fn every_command_line_is_understood() {
    let orderd = order_app::cli::command();
    let mut commands = 0;
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        let text = read(page);
        let mut lines = code(&text);
        for block in blocks(&text) {
            if matches!(block.info.as_str(), "sh" | "console" | "ini") {
                lines.extend(block.text.replace("\\\n", " ").lines().map(one_line));
            }
        }
        for line in lines {
            for invocation in invocations(&line) {
                commands += 1;
                if let Err(why) = check(&orderd, &invocation) {
                    panic!("{page}: {line}: {why}");
                }
            }
        }
    }
    assert!(commands > 30, "{commands}");
}

/// The words after each `orderd` of a line, up to the end of that command.
fn invocations(line: &str) -> Vec<Vec<String>> {
    // A name of a user, not a program, behind these.
    const USERS: [&str; 4] = ["-o", "-O", "-u", "--system"];
    let line = line.split(" # ").next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let is_program = |index: usize| {
        let word = words[index].trim_start_matches("SECRET=$(");
        let user = index > 0 && USERS.contains(&words[index - 1]);
        !user && !word.contains("://") && (word == "orderd" || word.ends_with("/orderd"))
    };
    let mut found = Vec::new();
    for index in 0..words.len() {
        // `cargo run --bin orderd -- serve`, too.
        let rest: Vec<String> = words[index + 1..]
            .iter()
            .take_while(|word| !matches!(**word, ">" | "|" | "&&"))
            .map(|word| word.trim_matches(['[', ']', ')', ',']).to_owned())
            .filter(|word| word != "--")
            .collect();
        let command = rest.first().is_some_and(|first| {
            !first.is_empty() && first.chars().all(|c| c.is_ascii_lowercase())
        });
        if is_program(index) && command {
            found.push(rest);
        }
    }
    found
}

fn check(orderd: &Command, words: &[String]) -> Result<(), String> {
    let (name, rest) = words.split_first().ok_or("no command")?;
    let command = orderd
        .find_subcommand(name)
        .ok_or_else(|| format!("there is no {name}"))?;
    for word in rest {
        let Some(flag) = word.strip_prefix("--") else {
            continue;
        };
        let known = command
            .get_arguments()
            .any(|argument| argument.get_long() == Some(flag));
        if !known && flag != "help" {
            return Err(format!("{name} has no --{flag}"));
        }
    }
    Ok(())
}

#[test]
fn a_wrong_command_line_is_noticed() {
    let orderd = order_app::cli::command();
    let check_line = |line: &str| {
        let found = invocations(line);
        assert!(!found.is_empty(), "{line}");
        found.iter().try_for_each(|words| check(&orderd, words))
    };
    check_line("DATABASE_URL=x orderd serve --log warn # orderd does it").unwrap();
    check_line("cargo run --bin orderd -- serve --relay off").unwrap();
    assert!(check_line("* * * * * orderd X=1 target/debug/orderd reconsile").is_err());
    assert!(check_line("SECRET=$(orderd token --nam x)").is_err());
}
