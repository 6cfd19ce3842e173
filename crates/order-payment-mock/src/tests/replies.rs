//! The same exchange over HTTP and NATS.

use std::time::Duration;

use reqwest::header::{LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use tokio::time::{Instant, timeout};

use crate::{Answer, Fault, Mock, RetryAfter, Script};

const ASK: &str = r#"{"order_ids":["A","B"]}"#;
const RIGHT: &str =
    r#"{"payments":[{"order_id":"A","state":"pending"},{"order_id":"B","state":"pending"}]}"#;
const SOON: Duration = Duration::from_secs(10);

/// A choice that another test made before stays.
fn choose_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn client() -> reqwest::Client {
    choose_tls();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .timeout(SOON)
        .build()
        .unwrap()
}

async fn post(
    client: &reqwest::Client,
    url: &str,
    body: &'static str,
) -> reqwest::Result<reqwest::Response> {
    client
        .post(url)
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await
}

#[tokio::test]
async fn over_http_each_fault_is_what_it_says() {
    let (mock, url) = Mock::over_http(Script::all(Answer::pending()))
        .await
        .unwrap();
    let client = client();
    let check = async |fault: Option<Fault>, status: u16, expect: &[u8]| {
        let name = format!("{fault:?}");
        if let Some(fault) = fault {
            mock.script(|script| script.next(fault));
        }
        let response = post(&client, &url, ASK).await.unwrap();
        let headers = response.headers().clone();
        assert_eq!(response.status().as_u16(), status, "{name}");
        assert_eq!(response.bytes().await.unwrap(), expect, "{name}");
        headers
    };
    let right = RIGHT.as_bytes();
    check(None, 200, right).await;
    check(Some(Fault::Slow(Duration::from_millis(1))), 200, right).await;
    check(Some(Fault::Status(500)), 500, br#"{"error":500}"#).await;
    check(Some(Fault::StatusWithAnswer(404)), 404, right).await;
    check(Some(Fault::Empty), 200, b"").await;
    check(
        Some(Fault::Html),
        200,
        b"<!doctype html><title>Be right back</title>",
    )
    .await;
    check(
        Some(Fault::Garbage),
        200,
        &[0xff, 0x00, 0xfe, b'{', 0xc3, 0x28],
    )
    .await;
    check(Some(Fault::Truncated), 200, &right[..right.len() / 2]).await;
    check(
        Some("other-json".parse().unwrap()),
        200,
        br#"{"payments":{"state":"paid"},"ok":true}"#,
    )
    .await;
    let foreign = RIGHT.replace("]}", r#",{"order_id":"Z","state":"pending"}]}"#);
    check(
        Some(Fault::Foreign(vec!["Z".to_owned()])),
        200,
        foreign.as_bytes(),
    )
    .await;
    let headers = check(Some(Fault::Redirect(307)), 307, b"").await;
    assert_eq!(headers[LOCATION], "/followed");
    let headers = check(
        Some(Fault::TooMany(RetryAfter::Absent)),
        429,
        br#"{"error":429}"#,
    )
    .await;
    assert!(!headers.contains_key(RETRY_AFTER));
    let headers = check(
        Some(Fault::TooMany(RetryAfter::Seconds(0))),
        429,
        br#"{"error":429}"#,
    )
    .await;
    assert_eq!(headers[RETRY_AFTER], "0");
    let headers = check(
        Some(Fault::Unavailable(RetryAfter::Seconds(0))),
        503,
        br#"{"error":503}"#,
    )
    .await;
    assert_eq!(headers[RETRY_AFTER], "0");
    let headers = check(
        Some(Fault::TooMany(RetryAfter::Date(0))),
        429,
        br#"{"error":429}"#,
    )
    .await;
    let date = headers[RETRY_AFTER].to_str().unwrap().to_owned();
    assert!(
        date.ends_with(" GMT") && date.len() == "Sun, 06 Nov 1994 08:49:37 GMT".len(),
        "{date}"
    );
    check(None, 200, right).await;
    let asked = mock.asked();
    assert_eq!(
        (asked.questions, asked.orders, asked.of("A"), asked.wrong),
        (16, 32, 16, 0)
    );
    assert!(asked.too_early.is_empty(), "{:?}", asked.too_early);
}

#[tokio::test]
async fn over_http_a_connection_ends_before_or_inside_an_answer() {
    let (mock, url) = Mock::over_http(Script::all(Answer::pending()))
        .await
        .unwrap();
    let client = client();
    mock.script(|script| script.next(Fault::HangUp));
    post(&client, &url, ASK).await.unwrap_err();
    mock.script(|script| script.next(Fault::CutOff));
    let mut response = post(&client, &url, ASK).await.unwrap();
    let half = response.chunk().await.unwrap().unwrap();
    assert_eq!(half, RIGHT.as_bytes()[..RIGHT.len() / 2]);
    response.chunk().await.unwrap_err();
    mock.script(|script| script.next(Fault::Silent));
    timeout(Duration::from_millis(100), post(&client, &url, ASK))
        .await
        .unwrap_err();
    assert_eq!(
        post(&client, &url, ASK)
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        RIGHT
    );
}

#[tokio::test]
async fn wrong_followed_and_early_questions_are_recorded() {
    let (mock, url) = Mock::over_http(Script::default()).await.unwrap();
    let client = client();
    assert_eq!(post(&client, &url, "{}").await.unwrap().status(), 400);
    assert_eq!(
        client.post(&url).body(ASK).send().await.unwrap().status(),
        400
    );
    assert_eq!(client.get(&url).send().await.unwrap().status(), 400);
    assert_eq!(mock.asked().wrong, 3);
    assert!(mock.asked().first_wrong.unwrap().contains("order_ids"));
    post(&client, &url.replace("/query", "/followed"), ASK)
        .await
        .unwrap();
    assert_eq!(mock.asked().followed, 1);
    mock.script(|script| script.next(Fault::TooMany(RetryAfter::Seconds(60))));
    post(&client, &url, ASK).await.unwrap();
    assert!(mock.asked().too_early.is_empty());
    post(&client, &url, ASK).await.unwrap();
    assert_eq!(mock.asked().too_early.len(), 1);
}

#[tokio::test]
async fn questions_beyond_the_limit_are_refused() {
    let (mock, url) = Mock::over_http(Script::default()).await.unwrap();
    mock.script(|script| script.limit(2));
    let client = client();
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(post(&client, &url, ASK).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(
        (mock.asked().limited, mock.asked().most_in_a_second),
        (1, 3)
    );
}

#[tokio::test]
async fn delayed_answers_are_those_of_the_time_of_the_question() {
    let (mock, url) = Mock::over_http(Script::all(Answer::pending()))
        .await
        .unwrap();
    let client = client();
    mock.hold();
    let mut asking = Box::pin(post(&client, &url, ASK));
    let asked = async {
        timeout(SOON, mock.was_asked(1)).await.unwrap();
        mock.script(|script| script.set("A", Answer::unknown()));
    };
    tokio::select! {
        _ = &mut asking => panic!("the answer was not delayed"),
        () = asked => {}
    }
    timeout(Duration::from_millis(50), &mut asking)
        .await
        .unwrap_err();
    mock.release();
    let answer = asking.await.unwrap().text().await.unwrap();
    assert_eq!(answer, RIGHT);
    assert_ne!(
        post(&client, &url, ASK)
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        RIGHT
    );
    assert_eq!(mock.asked().most_at_once, 1);
}

#[tokio::test]
async fn over_nats_the_same_questions_have_the_same_answers() {
    choose_tls();
    let server = order_testkit::Nats::start().unwrap();
    let mock = Mock::over_nats(
        Script::all(Answer::pending()),
        server.url(),
        "payments.query",
    )
    .await
    .unwrap();
    let client = async_nats::connect(server.url()).await.unwrap();
    let ask = || client.request("payments.query", ASK.into());
    assert_eq!(ask().await.unwrap().payload, RIGHT);
    mock.script(|script| {
        script.next(Fault::Status(500));
        script.next(Fault::TooMany(RetryAfter::Seconds(60)));
        script.next(Fault::Truncated);
        script.next(Fault::HangUp);
    });
    let header = |message: &async_nats::Message, name: &str| {
        message
            .headers
            .as_ref()
            .and_then(|headers| headers.get(name))
            .map(|value| value.as_str().to_owned())
    };
    let refused = ask().await.unwrap();
    assert_eq!(
        header(&refused, "Nats-Service-Error-Code").as_deref(),
        Some("500")
    );
    let refused = ask().await.unwrap();
    assert_eq!(
        header(&refused, "Nats-Service-Error-Code").as_deref(),
        Some("429")
    );
    assert_eq!(header(&refused, "Retry-After").as_deref(), Some("60"));
    assert_eq!(
        ask().await.unwrap().payload,
        RIGHT.as_bytes()[..RIGHT.len() / 2]
    );
    timeout(Duration::from_millis(100), ask())
        .await
        .unwrap_err();
    let wrong = client
        .request("payments.query", "nonsense".into())
        .await
        .unwrap();
    assert_eq!(
        header(&wrong, "Nats-Service-Error-Code").as_deref(),
        Some("400")
    );
    let asked = mock.asked();
    assert_eq!(
        (asked.questions, asked.wrong, asked.too_early.len()),
        (6, 1, 3)
    );
}

#[tokio::test]
async fn slow_answers_do_not_wait_for_one_another() {
    let (mock, url) = Mock::over_http(Script::default()).await.unwrap();
    mock.script(|script| script.always(Fault::Slow(Duration::from_millis(300))));
    let client = client();
    let begun = Instant::now();
    let all = (0..10).map(|_| post(&client, &url, ASK));
    futures_util::future::try_join_all(all).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(mock.asked().most_at_once, 10);
}
