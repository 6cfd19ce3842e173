//! The command line, made from the table of settings.

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use time::OffsetDateTime;

use crate::config::{Error, Given, SETTINGS, Setting, allowed_duration, parse_duration};
use crate::time_format;
use crate::tokens::{NewToken, Scope, TokenName};

/// What `orderd` is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Serve.
    Serve {
        /// Apply missing migrations first.
        migrate: bool,
    },
    /// Apply missing migrations.
    Migrate,
    /// Check the invariants.
    Audit,
    /// Reconcile once.
    Reconcile {
        /// Roll everything back.
        dry_run: bool,
        /// Print the run as JSON.
        json: bool,
    },
    /// Publish order events again.
    Republish {
        /// From when on.
        since: OffsetDateTime,
    },
    /// Consume payment events again.
    Reconsume {
        /// From when on.
        since: OffsetDateTime,
    },
    /// Make a token.
    Token(NewToken),
    /// Print the OpenAPI document.
    Openapi,
    /// Print the state machine.
    Diagram,
}

/// The commands and their flags.
pub fn command() -> Command {
    let with_settings = |command: Command| {
        SETTINGS
            .iter()
            .fold(command, |command, setting| command.arg(argument(setting)))
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("A TOML file with settings; flags and environment win over it"),
            )
    };
    let no_migrate = flag(
        "no-migrate",
        "Do not apply migrations; exit 1 if some are missing",
    );
    Command::new("orderd")
        .about("Makes each payment count exactly once")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            with_settings(Command::new("serve").about("Consume payment events and serve HTTP"))
                .arg(no_migrate),
        )
        .subcommand(with_settings(
            Command::new("migrate").about("Apply missing migrations"),
        ))
        .subcommand(with_settings(
            Command::new("audit").about("Check every invariant; exit 3 if one is broken"),
        ))
        .subcommand(
            with_settings(
                Command::new("reconcile")
                    .about("Ask the payment service about due orders, once: heal, cancel, settle"),
            )
            .arg(flag(
                "dry-run",
                "Roll everything back; exit 3 if there was something to do",
            ))
            .arg(flag("json", "Print the run as JSON")),
        )
        .subcommand(
            with_settings(
                Command::new("republish")
                    .about("Publish order events again, after the outbound stream lost some"),
            )
            .arg(since()),
        )
        .subcommand(
            with_settings(Command::new("reconsume").about(
                "Consume payment events again, after the database lost some; while no serve runs",
            ))
            .arg(since()),
        )
        .subcommand(
            with_settings(Command::new("token").about(
                "Make a token: its secret on standard output, its line into the tokens file",
            ))
            .args(token_arguments()),
        )
        .subcommand(Command::new("openapi").about("Print the OpenAPI document"))
        .subcommand(Command::new("diagram").about("Print the state machine as Mermaid"))
}

fn token_arguments() -> [Arg; 3] {
    let expires_min = Duration::from_secs(1);
    [
        Arg::new("name")
            .long("name")
            .value_name("NAME")
            .required(true)
            .value_parser(|text: &str| text.parse::<TokenName>())
            .help("Who it is for, as the history will say"),
        Arg::new("scopes")
            .long("scopes")
            .value_name("SCOPES")
            .required(true)
            .value_parser(|text: &str| Scope::parse_list(text).map(NewScopes))
            .help("orders:read, orders:write, ops; separated by commas"),
        Arg::new("expires")
            .long("expires")
            .value_name("DURATION")
            .value_parser(move |text: &str| {
                parse_duration(text, expires_min).ok_or_else(|| allowed_duration(expires_min))
            })
            .help("How long it is good for, such as 90d; without it until its line is removed"),
    ]
}

/// A list as one value: clap would take a plain list for several.
#[derive(Debug, Clone)]
struct NewScopes(Vec<Scope>);

fn given_token(flags: &ArgMatches) -> NewToken {
    let name = flags.get_one::<TokenName>("name");
    let scopes = flags.get_one::<NewScopes>("scopes");
    NewToken {
        name: name.expect("clap demands it").clone(),
        scopes: scopes.expect("clap demands it").0.clone(),
        expires: flags.get_one::<Duration>("expires").copied(),
    }
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

fn since() -> Arg {
    Arg::new("since")
        .long("since")
        .value_name("TIME")
        .required(true)
        .value_parser(|text: &str| time_format::parse(text))
        .help("An RFC 3339 time with an offset, such as 2026-11-29T08:00:00Z")
}

fn argument(setting: &'static Setting) -> Arg {
    let help = if setting.default.is_empty() {
        setting.help.to_owned()
    } else {
        format!("{} [default: {}]", setting.help, setting.default)
    };
    Arg::new(setting.flag)
        .long(setting.flag)
        .env(setting.env)
        .hide_env_values(true)
        .value_name("VALUE")
        .help(help)
}

/// Says what to do from what clap found.
pub fn task(matches: &ArgMatches) -> (Task, &ArgMatches) {
    match matches.subcommand() {
        Some(("serve", flags)) => (
            Task::Serve {
                migrate: !flags.get_flag("no-migrate"),
            },
            flags,
        ),
        Some(("migrate", flags)) => (Task::Migrate, flags),
        Some(("audit", flags)) => (Task::Audit, flags),
        Some(("reconcile", flags)) => (
            Task::Reconcile {
                dry_run: flags.get_flag("dry-run"),
                json: flags.get_flag("json"),
            },
            flags,
        ),
        Some(("republish", flags)) => (
            Task::Republish {
                since: given_since(flags),
            },
            flags,
        ),
        Some(("reconsume", flags)) => (
            Task::Reconsume {
                since: given_since(flags),
            },
            flags,
        ),
        Some(("token", flags)) => (Task::Token(given_token(flags)), flags),
        Some(("diagram", flags)) => (Task::Diagram, flags),
        // A subcommand is required, and this is the last of them.
        Some((_, flags)) => (Task::Openapi, flags),
        None => (Task::Openapi, matches),
    }
}

fn given_since(flags: &ArgMatches) -> OffsetDateTime {
    let since = flags.get_one::<OffsetDateTime>("since");
    *since.expect("clap demands it")
}

/// The settings given with a command.
///
/// # Errors
/// If the file or a variable is unknown or unreadable.
pub fn given(flags: &ArgMatches) -> Result<Given, Error> {
    let value = |setting: &Setting| {
        let value = flags.get_one::<String>(setting.flag)?.clone();
        let name = match flags.value_source(setting.flag) {
            Some(ValueSource::EnvVariable) => setting.env.to_owned(),
            _ => format!("--{}", setting.flag),
        };
        Some((name, value))
    };
    let environment = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    Given::collect(
        value,
        environment,
        flags.get_one::<PathBuf>("config").map(PathBuf::as_path),
    )
}
