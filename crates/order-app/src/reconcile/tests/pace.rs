//! A payment service that is silent, or wants to be left alone.

use super::*;

#[tokio::test]
async fn a_run_gives_up_without_replies_and_leaves_the_rest_due() {
    let shop = Shop::open().await;
    shop.create(names("OD", 600)).await;
    // Dropped at once: nothing listens at its URL any more.
    let (_, gone) = mock(Script::default()).await;
    let run = shop.run(&gone).await;
    assert_eq!((run.state, run.counts.unknown), (RunState::Done, 600));
    let (_mock, url) = mock(Script::all(Answer::unpaid_for_good())).await;
    // Their pause is zero here.
    assert_eq!(shop.run(&url).await.counts.cancelled, 600);
}

#[tokio::test]
async fn a_service_that_is_asked_too_often_is_left_alone_for_as_long_as_it_says() {
    let shop = Shop::open().await;
    shop.create(["ID".to_owned()]).await;
    let mut script = Script::all(Answer::unpaid_for_good());
    script.next(Fault::TooMany(RetryAfter::Seconds(1)));
    let (mock, url) = mock(script).await;
    assert_eq!(shop.run(&url).await.counts.cancelled, 1);
    let asked = mock.asked();
    assert_eq!(asked.questions, 2);
    assert!(asked.too_early.is_empty(), "{asked:?}");
}

#[tokio::test]
async fn after_a_long_retry_after_the_orders_stay_due() {
    let shop = Shop::open().await;
    shop.create(["ID".to_owned()]).await;
    let mut script = Script::default();
    script.always(Fault::Unavailable(RetryAfter::Seconds(3600)));
    let (mock, url) = mock(script).await;
    let run = shop.run(&url).await;
    let counts = run.counts;
    assert_eq!(
        (run.state, counts.asked, counts.unknown),
        (RunState::Done, 1, 1)
    );
    // Their pause is zero here. A run that may not ask didn't come to its end.
    let run = shop.run(&url).await;
    assert_eq!((run.state, run.counts.asked), (RunState::Failed, 0));
    assert_eq!(shop.status("ID").await, OrderStatus::NotPaid);
    assert_eq!(mock.asked().questions, 1, "no question before that time");
}

/// The reply itself is used.
#[tokio::test]
async fn a_pause_that_comes_with_a_reply_is_kept() {
    let shop = Shop::open().await;
    shop.create(["ID".to_owned()]).await;
    let mut script = Script::all(Answer::unpaid_for_good());
    script.always(Fault::AnswerAndPause(RetryAfter::Seconds(3600)));
    let (mock, url) = mock(script).await;
    assert_eq!(shop.run(&url).await.counts.cancelled, 1);
    shop.create(["OTHER".to_owned()]).await;
    let run = shop.run(&url).await;
    assert_eq!((run.state, run.counts.asked), (RunState::Failed, 0));
    assert_eq!(mock.asked().questions, 1, "no question before that time");
}

#[tokio::test]
async fn questions_are_spaced() {
    let shop = Shop::open().await;
    shop.create(names("OD", 20)).await;
    let mut script = Script::all(Answer::unpaid_for_good());
    script.above(1, Fault::Html);
    let (mock, url) = mock(script).await;
    let spacing = Duration::from_millis(20);
    let reconciler = shop.reconciler(Some(&url), spacing);
    assert_eq!(carry_out(&reconciler, false).await.counts.cancelled, 20);
    let times = mock.asked().times;
    assert_eq!(times.len(), 39);
    let whole = times[38] - times[0];
    assert!(whole >= 37 * spacing, "{whole:?}");
}
