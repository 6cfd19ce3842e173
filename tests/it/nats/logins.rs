//! How the service logs in to the broker.

use std::time::Duration;

use async_nats::ConnectOptions;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use order_testkit::{Nats, unique_name};
use serde_json::{Value, json};

use super::pays;
use crate::support::{Database, Payments, Service, eventually};

/// Long enough to start and to be paid once.
const LIFETIME: Duration = Duration::from_secs(10);

/// The service's account has JetStream, and so has the one of those who don't say who they are.
const ACCOUNTS: &str = r#"
    accounts {
        SHOP { jetstream: enabled, users: [ { user: "or/derd", password: "p@ss:w,rd" } ] }
        ANYBODY { jetstream: enabled, users: [ { user: anybody, password: anybody } ] }
    }
    no_auth_user: anybody
"#;

async fn payments(server: &Nats, url: &str) -> Payments {
    let name = "or/derd".to_owned();
    let test = ConnectOptions::with_user_and_password(name, "p@ss:w,rd".to_owned());
    let payments = Payments::with(server.url(), test).await;
    Payments {
        server: url.to_owned(),
        ..payments
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_connects_as_the_user_of_the_url() {
    let server = Nats::start_configured(ACCOUNTS).unwrap();
    let host = server.url().strip_prefix("nats://").unwrap();
    let url = format!("nats://or%2Fderd:p%40ss%3Aw%2Crd@{host}");
    let payments = payments(&server, &url).await;
    let database = Database::sqlite();
    let service = Service::start(&database, &payments).await;
    // Its stream is in the account that the test looks into.
    pays(&service, &payments, "O1").await;
    let anybody = Payments::on(server.url()).await;
    let found = anybody.context.get_stream(&payments.stream).await;
    assert!(found.is_err(), "another account has the stream as well");
    for secret in ["p@ss", "p%40ss"] {
        assert!(!service.log().contains(secret));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_gets_its_own_login() {
    let server = Nats::start_configured(ACCOUNTS).unwrap();
    let host = server.url().strip_prefix("nats://").unwrap();
    // The same server under two names; the first login is wrong.
    let other_name = host.replace("127.0.0.1", "localhost");
    let urls =
        format!("nats://or%2Fderd:s3cret@{other_name}, nats://or%2Fderd:p%40ss%3Aw%2Crd@{host}");
    let payments = payments(&server, &urls).await;
    let database = Database::sqlite();
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "O1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_the_reason_why_the_service_is_not_ready() {
    let server = Nats::start_configured(ACCOUNTS).unwrap();
    let host = server.url().strip_prefix("nats://").unwrap();
    let payments = payments(&server, &format!("nats://or%2Fderd:s3cret@{host}")).await;
    let database = Database::sqlite();
    let service = Service::start_unready(&database, &payments).await;
    service
        .because("broker-down", &["authorization violation"])
        .await;
    eventually("it tries again", async || {
        (service.log().matches("authorization violation").count() > 3).then_some(())
    })
    .await;
    assert!(!service.log().contains("s3cret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_the_url_is_sent() {
    let settings = |token: &str| format!("authorization {{ token: \"{token}\" }}");
    let mut server = Nats::start_configured(&settings("t0k/n")).unwrap();
    let host = server.url().strip_prefix("nats://").unwrap().to_owned();
    let test = ConnectOptions::with_token("t0k/n".to_owned());
    let mut payments = Payments::with(server.url(), test).await;
    payments.server = format!("nats://t0k%2Fn@{host}");
    let database = Database::sqlite();
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "O1").await;
    assert!(!service.log().contains("t0k"));
    // Every client has to log in again, and can't.
    server.configure(&settings("other")).unwrap();
    service
        .because("broker-down", &["authorization violation"])
        .await;
    assert!(!service.log().contains("t0k"));
}

/// Signs claims as `nsc` does.
fn jwt(subject: &KeyPair, issuer: &KeyPair, expires: Option<i64>, nats: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut claims = json!({
        "jti": unique_name("claim"), "iat": 1_700_000_000, "iss": issuer.public_key(),
        "sub": subject.public_key(), "name": "orderd", "nats": nats,
    });
    if let Some(expires) = expires {
        claims["exp"] = expires.into();
    }
    let signed = format!(
        "{}.{}",
        part(&json!({"typ": "JWT", "alg": "ed25519-nkey"})),
        part(&claims)
    );
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// An operator, one account, and as many credentials as the test wants.
struct Operator {
    account: KeyPair,
    settings: String,
}

impl Operator {
    fn new() -> Self {
        let (operator, account, system) = (
            KeyPair::new_operator(),
            KeyPair::new_account(),
            KeyPair::new_account(),
        );
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
            "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1,
            "consumer": -1,
        });
        let of_account = |key: &KeyPair| {
            let nats = json!({"type": "account", "version": 2, "limits": limits});
            jwt(key, &operator, None, &nats)
        };
        let of_operator = jwt(
            &operator,
            &operator,
            None,
            &json!({"type": "operator", "version": 2, "system_account": system.public_key()}),
        );
        let mut plain = json!({"type": "account", "version": 2, "limits": limits});
        // The system's account can't have JetStream.
        plain["limits"]["mem_storage"] = 0.into();
        plain["limits"]["disk_storage"] = 0.into();
        let of_system = jwt(&system, &operator, None, &plain);
        let settings = format!(
            "operator: \"{of_operator}\"\nsystem_account: {}\nresolver: MEMORY\n\
             resolver_preload: {{ {}: \"{}\", {}: \"{of_system}\" }}\n",
            system.public_key(),
            account.public_key(),
            of_account(&account),
            system.public_key(),
        );
        Self { account, settings }
    }

    /// A credentials file as `nsc` writes it.
    fn credentials(&self, expires: Option<i64>) -> String {
        let user = KeyPair::new_user();
        let nats = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
        let jwt = jwt(&user, &self.account, expires, &nats);
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap()
        )
    }
}

/// Short-lived credentials are exchanged under the running service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credentials_file_is_read_again_when_the_old_ones_expire() {
    let operator = Operator::new();
    let server = Nats::start_configured(&operator.settings).unwrap();
    let test = ConnectOptions::with_credentials(&operator.credentials(None)).unwrap();
    let payments = Payments::with(server.url(), test).await;
    let file = std::env::temp_dir().join(unique_name("orderd_creds"));
    let expires = (order_app::clock::now() + LIFETIME).unix_timestamp();
    std::fs::write(&file, operator.credentials(Some(expires))).unwrap();
    let database = Database::sqlite();
    let more = [("NATS_CREDS", file.to_str().unwrap())];
    let service = Service::start_with(&database, &payments, &more).await;
    service.ready_again().await;
    pays(&service, &payments, "before").await;
    // The file is replaced after the credentials have expired: until then the service can't log in.
    service
        .because("broker-down", &["authorization violation"])
        .await;
    std::fs::write(&file, "half of a file").unwrap();
    eventually("it says what is wrong with the file", async || {
        service
            .log()
            .contains("credentials file of NATS_CREDS not usable")
            .then_some(())
    })
    .await;
    let fresh = operator.credentials(None);
    std::fs::write(&file, &fresh).unwrap();
    service.ready_again().await;
    pays(&service, &payments, "after").await;
    payments.drained().await;
    let seed = fresh.lines().find(|line| line.starts_with("SU")).unwrap();
    assert!(!service.log().contains(seed));
    service.terminate().await;
    std::fs::remove_file(&file).unwrap();
}
