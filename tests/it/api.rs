//! Callers that wait, die or go away.

use std::time::{Duration, Instant};

use order_testkit::unique_name;

use crate::support::{Database, Payments, Service, event, eventually};

/// The answer to a command with a key; `None` if there is no answer.
async fn create_keyed(service: &Service, key: &str) -> Option<(u16, serde_json::Value)> {
    let request = reqwest::Client::new()
        .post(format!("{}/v1/orders", service.http))
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(r#"{"order_id":"O1","amount":1000,"currency":"EUR"}"#);
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.json().await.ok()?))
}

/// Waits for another version than 1; the status of the answer and how long it took.
async fn wait_for_change(service: &Service) -> (u16, Duration) {
    let request = reqwest::Client::new()
        .get(format!("{}/v1/orders/O1", service.http))
        .header("if-none-match", "\"1\"")
        .header("prefer", "wait=30");
    let started = Instant::now();
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), started.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_woken_whichever_process_moves_the_order() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let here = Service::start(&database, &payments).await;
    let there = Service::start(&database, &payments).await;
    here.create("O1").await;
    let pay = async {
        // Until both wait: read from the metrics, not after a fixed time.
        eventually("both wait", async || {
            let waiting = [waits_at(&here).await?, waits_at(&there).await?];
            (waiting == [1, 1]).then_some(())
        })
        .await;
        payments
            .publish(event("succeeded", "tx1", "O1", 1000))
            .await;
    };
    let (here_answer, there_answer, ()) =
        tokio::join!(wait_for_change(&here), wait_for_change(&there), pay);
    for (status, took) in [here_answer, there_answer] {
        assert_eq!(status, 200);
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}

/// How many wait at a service.
async fn waits_at(service: &Service) -> Option<u64> {
    let (status, _) = service.get("/readyz").await?;
    (status == 200).then_some(service.counter("orderd_http_waiting", "").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_do_not_hold_up_the_end() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    let request = reqwest::Client::new()
        .get(format!("{}/v1/orders/O1", service.http))
        .header("if-none-match", "\"1\"")
        .header("prefer", "wait=30");
    let end = async {
        eventually("a caller waits", async || {
            (waits_at(&service).await? == 1).then_some(())
        })
        .await;
        service.terminate().await
    };
    let (answer, (code, took)) = tokio::join!(request.send(), end);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(9), "{took:?}");
    assert_eq!(answer.unwrap().status().as_u16(), 304);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_commit_and_answer_leaves_the_truth_and_frees_the_key() {
    for database in [Database::sqlite(), Database::postgres().await] {
        let payments = Payments::new().await;
        let dying = [("CRASH_POINT", "idempotency:carried-out")];
        let mut service = Service::start_with(&database, &payments, &dying).await;
        let key = unique_name("key");
        assert_eq!(create_keyed(&service, &key).await, None);
        service.died().await;
        let died = Instant::now();

        // Another process: keys belong to the database.
        let service = Service::start(&database, &payments).await;
        assert_eq!(service.status("O1").await, Some(("NOT_PAID".to_owned(), 1)));
        let order = eventually("the key is free", async || {
            match create_keyed(&service, &key).await? {
                (200, order) => Some(order),
                (409, problem) => {
                    assert_eq!(problem["type"], "/problems/idempotency-key-in-use");
                    None
                }
                other => panic!("{other:?}"),
            }
        })
        .await;
        assert!(
            died.elapsed() < Duration::from_secs(13),
            "{:?}",
            died.elapsed()
        );
        assert_eq!(order["version"], 1);
        let (_, history) = service.get("/v1/orders/O1/history").await.unwrap();
        assert_eq!(history["items"].as_array().unwrap().len(), 1);
        let again = create_keyed(&service, &key).await.unwrap();
        assert_eq!(again, (200, order));
    }
}
