//! Who gets in, and what every page says to the browser.

use axum::body::Body;
use axum::http::{Request, header};

use super::browser::{Console, HOST};
use crate::http::router;
use crate::http::tests::app::{get, send};
use crate::tokens::Scope;

#[tokio::test]
async fn the_root_leads_to_the_console_and_off_means_that_there_is_none() {
    let console = Console::open().await;
    let answer = console.browser().get("/").await;
    assert_eq!(answer.status, 303, "{answer}");
    assert_eq!(answer.header("location"), Some("/console"));
    let off = router(console.app.state.clone());
    for path in [
        "/",
        "/console",
        "/console/sign-in",
        "/console/files/htmx.js",
    ] {
        let answer = send(&off, get(path).body(Body::empty()).unwrap()).await;
        answer.problem(404, "not-found");
    }
    let closed = Console::with_tokens(None).await;
    let off = closed.app.state.clone().with_tokens(closed.tokens.clone());
    let answer = send(&router(off), get("/console").body(Body::empty()).unwrap()).await;
    answer.problem(404, "not-found");
}

#[tokio::test]
async fn a_token_signs_in_until_it_is_removed_or_signed_out() {
    let console = Console::with_tokens(None).await;
    let secret = console.issue("ann", &Scope::ALL);
    let browser = console.browser();
    let away = browser.get("/console?verdict=REVERSED").await;
    assert_eq!(away.status, 303, "{away}");
    let sign_in = away.header("location").unwrap().to_owned();
    assert!(
        sign_in.starts_with("/console/sign-in?next=%2Fconsole"),
        "{sign_in}"
    );
    let form = browser.page(&sign_in).await;
    assert!(
        form.contains("name=\"next\" value=\"/console?verdict=REVERSED\""),
        "{form}"
    );
    for wrong in ["", "orderd_wrong", "a;b=c", &format!("{secret}0")] {
        let refused = browser
            .submit("/console/sign-in", &[("token", wrong)])
            .await;
        assert_eq!(refused.status, 401, "{refused}");
        assert!(refused.text().contains("The token is unknown"), "{refused}");
        assert_eq!(refused.headers.get(header::SET_COOKIE), None);
    }
    let given = [
        ("token", &*format!(" {secret} ")),
        ("next", "/console/search?q=a"),
    ];
    let answer = browser.submit("/console/sign-in", &given).await;
    assert_eq!(answer.status, 303, "{answer}");
    assert_eq!(answer.header("location"), Some("/console/search?q=a"));
    assert_eq!(
        answer.header("set-cookie"),
        Some(&*format!(
            "orderd_session={secret}; Path=/; HttpOnly; SameSite=Strict"
        ))
    );
    let page = browser.page("/console").await;
    assert!(
        page.contains("<span class=\"who-name\">ann</span>"),
        "{page}"
    );
    assert!(!page.contains(&secret), "the page contains the secret");
    assert_eq!(browser.get("/console/sign-in").await.status, 303);

    // The API doesn't take the cookie.
    let api = browser.get("/v1/payment-exceptions").await;
    api.problem(401, "unauthenticated");

    let out = browser.submit("/console/sign-out", &[]).await;
    assert_eq!(out.header("location"), Some("/console/sign-in"), "{out}");
    assert_eq!(browser.get("/console").await.status, 303);

    assert_eq!(browser.sign_in(&secret).await.status, 303);
    browser.page("/console").await;
    std::fs::write(console.tokens_file(), "").unwrap();
    console.read_tokens();
    assert_eq!(browser.get("/console").await.status, 303);
    // htmx would follow a redirect unnoticed.
    let request = Request::get("/console").header("hx-request", "true");
    let answer = browser.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(
        answer.header("hx-redirect"),
        Some("/console/sign-in?next=%2Fconsole")
    );
}

#[tokio::test]
async fn the_cookie_is_secure_where_the_service_has_another_name() {
    let console = Console::with_tokens(None).await;
    let secret = console.issue("ann", &[Scope::Ops]);
    let mut browser = console.browser();
    browser.host = "orders.example".to_owned();
    let answer = browser.sign_in(&secret).await;
    assert_eq!(answer.status, 303, "{answer}");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
}

#[tokio::test]
async fn a_form_needs_its_token_and_the_own_origin() {
    let console = Console::with_tokens(None).await;
    let browser = console.signed_in("ann", &Scope::ALL).await;
    let other = console.signed_in("bob", &Scope::ALL).await;
    browser.page("/console").await;
    other.page("/console").await;
    let of_another = other.form.lock().unwrap().clone();
    for form in ["", "0000", &of_another] {
        let refused = browser.submit_as(form, "/console/sign-out", &[]).await;
        assert_eq!(refused.status, 403, "{refused}");
    }
    let own = browser.form.lock().unwrap().clone();
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:8081"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let request = Request::post("/console/sign-out")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(name, value);
        let body = Body::from(format!("form={own}"));
        let refused = browser.send(request.body(body).unwrap()).await;
        assert_eq!(refused.status, 403, "{name}: {value}: {refused}");
    }
    let json = Request::post("/console/sign-out").header(header::CONTENT_TYPE, "text/plain");
    let refused = browser
        .send(json.body(Body::from(format!("form={own}"))).unwrap())
        .await;
    assert_eq!(refused.status, 415, "{refused}");
    assert_eq!(browser.submit("/console/sign-out", &[]).await.status, 303);

    // Without tokens, too.
    let console = Console::open().await;
    let browser = console.browser();
    browser.page("/console").await;
    let refused = browser.submit_as("", "/console/sign-out", &[]).await;
    assert_eq!(refused.status, 403, "{refused}");
    let foreign = Request::get("/console").header(header::HOST, "evil.example");
    let refused = browser.send(foreign.body(Body::empty()).unwrap()).await;
    assert_eq!(refused.status, 403, "{refused}");
}

#[tokio::test]
async fn every_answer_tells_the_browser_to_load_and_keep_nothing_else() {
    let console = Console::open().await;
    let browser = console.browser();
    for path in [
        "/console",
        "/console/no-such-page",
        "/console/orders/OD-404",
    ] {
        let answer = browser.get(path).await;
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8"),
            "{answer}"
        );
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; "),
            "{policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}: {name}");
        }
        let html = answer.text();
        for unsafe_part in [
            "<style", "style=", "onclick", "<script>", "http://", "https://",
        ] {
            assert!(!html.contains(unsafe_part), "{path}: {unsafe_part}");
        }
    }
    for file in ["console.css", "console.js", "htmx.js", "icon.svg"] {
        let page = browser.page("/console").await;
        let start = format!("/console/files/{file}?v=");
        let (_, rest) = page.split_once(&start).unwrap();
        let version = rest.split('"').next().unwrap();
        let answer = browser.get(&format!("{start}{version}")).await;
        assert_eq!(answer.status, 200);
        let cached = answer.header("cache-control");
        assert_eq!(cached, Some("public, max-age=31536000, immutable"));
    }
}

#[tokio::test]
async fn pages_count_for_the_rate_limit() {
    let console = Console::with_tokens(Some(5)).await;
    let ann = console.signed_in("ann", &Scope::ALL).await;
    let mut last = 200;
    for _ in 0..12 {
        last = ann.get("/console").await.status.as_u16();
    }
    assert_eq!(last, 429);
    let limited = ann.get("/console").await;
    assert_eq!(limited.header("retry-after"), Some("1"), "{limited}");
    assert!(limited.text().contains("Too many requests"), "{limited}");
    assert_eq!(ann.host, HOST);
}
