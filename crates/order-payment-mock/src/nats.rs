//! Questions over NATS: requests on a subject, answered by one member of a queue group.

use std::sync::Arc;

use async_nats::{Client, ConnectOptions, HeaderMap, Message};
use futures_util::StreamExt;
use tokio::task::JoinSet;

use super::desk::{Desk, Reply};

const QUEUE: &str = "payment-service";

/// Subscribes; the returned future answers until it is dropped.
pub(super) async fn serve(
    desk: Arc<Desk>,
    broker: &str,
    subject: &str,
) -> Result<impl Future<Output = ()> + Send + use<>, async_nats::Error> {
    let servers: Vec<&str> = broker.split(',').map(str::trim).collect();
    let client = ConnectOptions::new()
        .name("payment-service")
        .connect(servers)
        .await?;
    let mut questions = client
        .queue_subscribe(subject.to_owned(), QUEUE.to_owned())
        .await?;
    // The first question after this returns must not meet a subject without a responder.
    client.flush().await?;
    Ok(async move {
        let mut answers = JoinSet::new();
        while let Some(question) = questions.next().await {
            answers.spawn(answer(Arc::clone(&desk), client.clone(), question));
            while answers.try_join_next().is_some() {}
        }
    })
}

async fn answer(desk: Arc<Desk>, client: Client, question: Message) {
    let body = match &question.reply {
        Some(_) => Ok(question.payload.to_vec()),
        None => Err("no subject to reply to".to_owned()),
    };
    let reply = desk.answer(body).await;
    let Some(to) = question.reply else {
        return;
    };
    // A caller that can't be reached any more doesn't wait for the answer.
    let _ = match reply {
        Reply::Whole {
            status: 200, body, ..
        }
        | Reply::CutOff { body } => client.publish(to, body.into()).await,
        Reply::Whole {
            status,
            headers,
            body,
        } => {
            let headers = error_headers(status, &headers);
            client.publish_with_headers(to, headers, body.into()).await
        }
        Reply::HangUp | Reply::Silent => Ok(()),
    };
}

/// The headers by which services over NATS report an error.
fn error_headers(status: u16, http: &[(&str, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Service-Error-Code", status.to_string());
    headers.insert("Nats-Service-Error", format!("status {status}"));
    if let Some((_, value)) = http.iter().find(|(name, _)| *name == "retry-after") {
        headers.insert("Retry-After", value.as_str());
    }
    headers
}
