//! No circle of files: whatever a file imports doesn't import that file again, at any distance. A
//! module and those below it are one thing and may refer to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::Chars;

use crate::tidy::sources;

/// A module, by the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// What each file of a folder imports, tests left out.
fn imports(folder: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let files: BTreeMap<Module, String> = sources(folder)
        .into_iter()
        .filter_map(|(path, text)| {
            let inside = path.strip_prefix(folder).unwrap().with_extension("");
            let mut module: Module = inside
                .iter()
                .map(|name| name.to_str().unwrap().to_owned())
                .collect();
            if module.iter().any(|name| name.starts_with("tests")) {
                return None;
            }
            module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
            Some((module, code(&text)))
        })
        .collect();
    let imported = |module: &Module, text: &str| {
        paths(text)
            .into_iter()
            .map(|path| resolve(module, &path, &files))
            .filter(|other| !other.starts_with(module) && !module.starts_with(other))
            .collect()
    };
    files
        .iter()
        .map(|(module, text)| (module.clone(), imported(module, text)))
        .collect()
}

/// A file without comments and without the tests at its end.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = before_tests.lines();
    lines.map(|line| line.split("//").next().unwrap()).collect()
}

/// Every path that begins with `crate` or `super`, groups taken apart.
pub(crate) fn paths(code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        let begins = code.match_indices(root).map(|(at, _)| at);
        for at in begins.filter(|at| !code[..*at].ends_with([':', '_', '$'])) {
            tree(&mut code[at..].chars().peekable(), &[], &mut found);
        }
    }
    found
}

/// Reads one path or group of paths.
fn tree(chars: &mut Peekable<Chars<'_>>, above: &[String], found: &mut Vec<Module>) {
    let mut path = above.to_vec();
    loop {
        while chars.next_if(|char| char.is_whitespace()).is_some() {}
        if chars.next_if_eq(&'{').is_some() {
            while chars.peek().is_some_and(|char| *char != '}') {
                tree(chars, &path, found);
                // Another name (`as`), white space, the comma.
                while chars.next_if(|char| !",}".contains(*char)).is_some() {}
                chars.next_if_eq(&',');
                while chars.next_if(|char| char.is_whitespace()).is_some() {}
            }
            chars.next();
            return;
        }
        let mut name = String::new();
        while let Some(char) = chars.next_if(|char| char.is_alphanumeric() || *char == '_') {
            name.push(char);
        }
        path.push(name);
        if chars.next_if_eq(&':').is_none() || chars.next_if_eq(&':').is_none() {
            found.push(path);
            return;
        }
    }
}

/// The file that a path in this module leads to.
fn resolve(module: &Module, path: &[String], files: &BTreeMap<Module, String>) -> Module {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let mut target = match ups {
        0 => Module::new(),
        _ => module[..module.len().saturating_sub(ups)].to_vec(),
    };
    target.extend(path[ups.max(1)..].iter().cloned());
    while !target.is_empty() && !files.contains_key(&target) {
        target.pop();
    }
    target
}

/// The files of all circles, and those between two circles.
fn circles(mut imports: BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    loop {
        let before = imports.len();
        let left: BTreeSet<Module> = imports.keys().cloned().collect();
        imports.retain(|_, others| !others.is_disjoint(&left));
        let imported: BTreeSet<Module> = imports.values().flatten().cloned().collect();
        imports.retain(|module, _| imported.contains(module));
        if imports.len() == before {
            return imports
                .into_keys()
                .map(|module| module.join("::"))
                .collect();
        }
    }
}

#[test]
fn no_files_import_one_another_in_a_circle() {
    for krate in [
        "order-app",
        "order-bench",
        "order-drill",
        "order-fsm",
        "order-payment-mock",
        "order-store",
        "order-testkit",
    ] {
        let imports = imports(&format!("crates/{krate}/src"));
        let found = circles(imports);
        assert!(found.is_empty(), "{krate}: {found:?}");
    }
}

#[test]
fn a_circle_is_found_whatever_its_length() {
    let module = |name: &str| vec![name.to_owned()];
    let edges = [
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("a", "d"),
        ("e", "a"),
        ("d", "d2"),
    ];
    let mut imports = BTreeMap::<Module, BTreeSet<Module>>::new();
    for (from, to) in edges {
        imports.entry(module(from)).or_default().insert(module(to));
    }
    assert_eq!(circles(imports), ["a", "b", "c"]);
    let read = paths("use crate::a::{b::C, d as e};use super::f;g(crate::h::i)");
    let read: Vec<String> = read.into_iter().map(|path| path.join("::")).collect();
    assert_eq!(
        read,
        ["crate::a::b::C", "crate::a::d", "crate::h::i", "super::f"]
    );
}
