//! The command line, made from the table of settings.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use time::OffsetDateTime;

use crate::config::{
    Error, Given, SETTINGS, Setting, allowed_duration, masked, parse_duration, tidy,
};
use crate::time_format;
use crate::tokens::{NewToken, Scope, TokenName};

/// What a command line asks for.
#[derive(Debug)]
pub enum Invocation<'a> {
    /// A document, printed; no settings are needed.
    Print(Document),
    /// A new token; its settings come with the flags.
    IssueToken(NewToken, &'a ArgMatches),
    /// Something to run with settings, which come with the flags.
    Run(Task, &'a ArgMatches),
}

/// A document that is compiled into the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// The OpenAPI document.
    OpenApi,
    /// The state machine.
    Diagram,
}

/// A command that works with the database or the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        /// The time from which on.
        since: OffsetDateTime,
    },
    /// Consume payment events again.
    Reconsume {
        /// The time from which on.
        since: OffsetDateTime,
    },
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
                    .value_parser(config_file)
                    .help("A TOML file with settings; flags and environment take precedence"),
            )
    };
    let no_migrate = flag(
        "no-migrate",
        "Do not apply migrations; exit 1 if any are missing",
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
            Command::new("audit").about("Check every invariant; exit 3 if one is violated"),
        ))
        .subcommand(
            with_settings(
                Command::new("reconcile")
                    .about("Reconcile once: record lost payments, cancel unpaid orders"),
            )
            .arg(flag(
                "dry-run",
                "Roll everything back; exit 3 if there is something to do",
            ))
            .arg(flag("json", "Print the run as JSON")),
        )
        .subcommand(
            with_settings(
                Command::new("republish")
                    .about("Publish order events again after the outbound stream lost some"),
            )
            .arg(since()),
        )
        .subcommand(
            with_settings(Command::new("reconsume").about(
                "Consume payment events again after the database lost some; stop every serve first",
            ))
            .arg(since()),
        )
        .subcommand(
            with_settings(
                Command::new("token")
                    .about("Issue a token: prints its secret and adds its line to the tokens file"),
            )
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
            .help("Name of the token; the actor in the history"),
        Arg::new("scopes")
            .long("scopes")
            .value_name("SCOPES")
            .required(true)
            .value_parser(|text: &str| Scope::parse_list(text).map(NewScopes))
            .help("Any of orders:read, orders:write and ops, separated by commas"),
        Arg::new("expires")
            .long("expires")
            .value_name("DURATION")
            .value_parser(move |text: &str| {
                parse_duration(text, expires_min).ok_or_else(|| allowed_duration(expires_min))
            })
            .help("How long it is valid, such as 90d; without it, until its line is removed"),
    ]
}

/// A list as one value: clap would treat a plain `Vec` as several values.
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

/// As with other settings, white space around the name is cut off.
fn config_file(name: &str) -> Result<PathBuf, Error> {
    tidy("--config", name).map(PathBuf::from)
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
    let mut help = setting.help.replace('`', "");
    if !setting.default.is_empty() {
        help = format!("{help} [default: {}]", setting.default);
    }
    Arg::new(setting.flag)
        .long(setting.flag)
        .env(setting.env)
        .hide_env_values(true)
        .value_name("VALUE")
        .help_heading(setting.group)
        .help(help)
}

/// Reads a command line.
///
/// # Errors
/// The message for standard error if it, or a setting in the environment, is wrong. Whoever asks for help gets it here,
/// and the process ends.
pub fn matches() -> Result<ArgMatches, String> {
    command().try_get_matches().map_err(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        let environment = SETTINGS
            .iter()
            .filter_map(|setting| Some((setting.env, std::env::var_os(setting.env)?)));
        let arguments = std::env::args_os().skip(1);
        complaint(&error, environment, arguments)
    })
}

/// What is wrong, without passwords. Clap repeats arguments, and doesn't name the variable whose value isn't UTF-8.
fn complaint(
    error: &clap::Error,
    mut environment: impl Iterator<Item = (&'static str, OsString)>,
    arguments: impl Iterator<Item = OsString>,
) -> String {
    if error.kind() == ErrorKind::InvalidUtf8
        && let Some((name, value)) = environment.find(|(_, value)| value.to_str().is_none())
    {
        let error = Error::Invalid {
            name: name.to_owned(),
            value: masked(&value.to_string_lossy()),
            allowed: "text in UTF-8".to_owned(),
        };
        return format!("orderd: {error}\n");
    }
    let mut text = error.render().to_string();
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let value = argument.split_once('=').map(|(_, value)| value);
        for secret in [Some(&*argument), value].into_iter().flatten() {
            let shown = masked(secret);
            if shown != secret {
                text = text.replace(secret, &shown);
            }
        }
    }
    text
}

/// Reads what clap found.
pub fn invocation(matches: &ArgMatches) -> Invocation<'_> {
    // Clap ends the process when there is no subcommand, or an unknown one.
    let (name, flags) = matches.subcommand().expect("clap demands it");
    let task = match name {
        "serve" => Task::Serve {
            migrate: !flags.get_flag("no-migrate"),
        },
        "migrate" => Task::Migrate,
        "audit" => Task::Audit,
        "reconcile" => Task::Reconcile {
            dry_run: flags.get_flag("dry-run"),
            json: flags.get_flag("json"),
        },
        "republish" => Task::Republish {
            since: given_since(flags),
        },
        "reconsume" => Task::Reconsume {
            since: given_since(flags),
        },
        "token" => return Invocation::IssueToken(given_token(flags), flags),
        "diagram" => return Invocation::Print(Document::Diagram),
        _ => return Invocation::Print(Document::OpenApi),
    };
    Invocation::Run(task, flags)
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
