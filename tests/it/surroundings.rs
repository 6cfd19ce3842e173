//! What the surroundings of the process bring along: variables, line ends, proxies.

use order_payment_mock::{Answer, Mock, Script};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Database, PATIENCE, Payments, Service, orderd};

#[test]
fn variables_of_kubernetes_and_line_ends_do_not_lead_to_another_database() {
    let folder = std::env::temp_dir().join(order_testkit::unique_name("orderd_spaces"));
    std::fs::create_dir(&folder).unwrap();
    let url = format!("sqlite://{}/orderd.db", folder.display());
    for around in ["", " ", "\n", "\r\n", "\u{a0}"] {
        let done = orderd(&["migrate"])
            .env("DATABASE_URL", format!("{around}{url}{around}"))
            .env("ORDERD_SERVICE_HOST", "10.0.0.1")
            .env("ORDERD_SERVICE_PORT_HTTP", "80")
            .env("ORDERD_PORT", "tcp://10.0.0.1:80")
            .env("ORDERD_PORT_80_TCP_ADDR", "10.0.0.1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{around:?}: {said}");
    }
    let files = std::fs::read_dir(&folder).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    let strange = names.iter().find(|name| {
        let name = name.to_string_lossy();
        name.trim() != name || !name.starts_with("orderd.db")
    });
    assert_eq!(strange, None, "{names:?}");
    for (name, value) in [
        ("ORDERD_DB_SERVICE_HOST", "10.0.0.1"),
        ("DATABASE_URL", "sqlite://ord\nerd.db"),
    ] {
        let refused = orderd(&["migrate"]).env(name, value).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{name}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.starts_with(&format!("orderd: {name} ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Variables that name this proxy for everything.
fn proxied(url: &str) -> Vec<(&'static str, &str)> {
    [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ]
    .map(|name| (name, url))
    .into_iter()
    .chain([("NO_PROXY", ""), ("no_proxy", "")])
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_service_on_this_machine_is_asked_past_the_proxy() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let script = Script::all(Answer::unpaid_for_good());
    let (mock, query) = Mock::over_http(script).await.unwrap();
    // No process listens there.
    let mut settings = proxied("http://127.0.0.1:9");
    settings.push(("ORDERD_PAYMENT_QUERY", &query));
    let service = Service::start_with(&database, &payments, &settings).await;
    service.create("O1").await;
    let (status, answer) = service.post("/v1/orders/O1/cancel", &json!({})).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(mock.asked().questions, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_service_elsewhere_is_asked_through_the_proxy() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let mut settings = proxied(&url);
    settings.push(("ORDERD_PAYMENT_QUERY", "http://pay.example/query"));
    let service = Service::start_with(&database, &payments, &settings).await;
    service.create("O1").await;
    let asked = async {
        let (mut stream, _) = proxy.accept().await.unwrap();
        let mut request = vec![0; 1024];
        let length = stream.read(&mut request).await.unwrap();
        let body = r#"{"payments":[{"order_id":"O1","state":"unpaid","final":true}]}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        // It stays open until the answer is read.
        (
            String::from_utf8_lossy(&request[..length]).into_owned(),
            stream,
        )
    };
    let no_body = json!({});
    let cancel = service.post("/v1/orders/O1/cancel", &no_body);
    let both = async { tokio::join!(asked, cancel) };
    let both = tokio::time::timeout(PATIENCE, both).await;
    let ((request, _stream), (status, answer)) = both.expect("the proxy is asked");
    assert!(
        request.starts_with("POST http://pay.example/query HTTP/1.1"),
        "{request}"
    );
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn a_setting_that_is_not_utf_8_is_named() {
    use std::os::unix::ffi::OsStringExt as _;

    for name in ["DATABASE_URL", "ORDERD_KEEP", "ORDERD_TOKENS_FILE"] {
        let value = std::ffi::OsString::from_vec(b"90\xffd".to_vec());
        let refused = orderd(&["migrate"]).env(name, value).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(name) && said.contains("UTF-8"), "{said}");
    }
}

#[test]
fn a_password_on_a_wrong_command_line_is_not_repeated() {
    let url = "postgres://ann:s3cret@db/shop";
    let flag = format!("--databaseurl={url}");
    for arguments in [
        &["migrate", url][..],
        &["migrate", "--", url],
        &["migrate", "postgres://ann:s3cret"],
        &["republish", "--since", url],
        &["migrate", &flag],
        &[url],
    ] {
        let refused = orderd(arguments).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("error") && !said.contains("s3cret"), "{said}");
    }
    let help = orderd(&["--help"]).output().unwrap();
    assert_eq!(help.status.code(), Some(0));
    assert!(!help.stdout.is_empty() && help.stderr.is_empty());
}
