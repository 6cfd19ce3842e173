//! Values as messages show them: without what may be a secret.

/// Parameters of URLs that aren't secrets and help to find a mistake.
const PLAIN_PARAMETERS: &[&str] = &["application_name", "cache", "mode", "sslmode"];

/// Schemes after which a login may follow, even without slashes.
const SCHEMES: &[&str] = &["http:", "https:", "postgres:", "postgresql:"];

/// Masks the passwords and tokens of URLs, also of malformed ones. A password may contain any
/// character, so everything is masked that may be part of one: a comma may separate two URLs or be
/// in a password.
pub(crate) fn masked(value: &str) -> String {
    let value = without_password(value);
    let Some(end) = value.rfind('@') else {
        return without_parameters(&without_stray_password(&value));
    };
    let rest = without_parameters(&without_stray_password(&value[end..]));
    let start = value[..end].find("//").map_or(0, |slashes| slashes + 2);
    let user = match value[start..end].split_once([':', '@']) {
        Some((user, _)) if value[start + user.len()..].starts_with(':') => user,
        // A name without a password; for NATS that is a token.
        None if value.starts_with("postgres") => return format!("{}{rest}", &value[..end]),
        _ => "",
    };
    format!("{}{user}:***{rest}", &value[..start])
}

/// Masks a password without a host: where there is no `@`, it stands where a port would be.
fn without_stray_password(value: &str) -> String {
    let scheme = SCHEMES.iter().find(|scheme| value.starts_with(**scheme));
    let slashes = value.find("//").map(|slashes| slashes + 2);
    let Some(start) = slashes.or(scheme.map(|scheme| scheme.len())) else {
        return value.to_owned();
    };
    let is_harmless = |colon: usize| {
        let (before, rest) = (&value[..colon], &value[colon + 1..]);
        let port = &rest[..rest.find([',', '/', '?', '#']).unwrap_or(rest.len())];
        // The scheme of another URL, a part of an IPv6 address, or a port.
        rest.starts_with("//")
            || before.rfind('[') > before.rfind(']')
            || port.parse::<u16>().is_ok()
    };
    let mut colons = value.match_indices(':').map(|(colon, _)| colon);
    match colons.find(|&colon| colon >= start && !is_harmless(colon)) {
        Some(colon) => format!("{}***", &value[..=colon]),
        None => value.to_owned(),
    }
}

/// Masks the query parameters that may be secrets.
fn without_parameters(value: &str) -> String {
    let Some((before, query)) = value.split_once('?') else {
        return value.to_owned();
    };
    let parameters: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if PLAIN_PARAMETERS.contains(&name) => parameter.to_owned(),
            Some((name, _)) => format!("{name}=***"),
            None => "***".to_owned(),
        })
        .collect();
    format!("{before}?{}", parameters.join("&"))
}

/// Masks a password that is named as such, in a URL or in a list of words.
fn without_password(value: &str) -> String {
    let mut parts = value.split("password=");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('&').unwrap_or(part.len());
        masked.push_str("password=***");
        masked.push_str(&part[end..]);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn what_may_be_a_secret_is_masked_and_nothing_else() {
        for (value, expect) in [
            ("postgres://u:sekret", "postgres://u:***"),
            ("postgres://u:sek/ret,1:2", "postgres://u:***"),
            ("postgres:u:sekret", "postgres:u:***"),
            ("http:u:sekret@h", "http:***@h"),
            (
                "nats://h:4222,nats://u:sekret",
                "nats://h:4222,nats://u:***",
            ),
            ("nats://a@h,nats://u:sekret", "nats://:***@h,nats://u:***"),
            ("https://h/q?api_key=sekret", "https://h/q?api_key=***"),
            (
                "https://u:sekret@h/q?a=sekret&mode=x&sekret",
                "https://u:***@h/q?a=***&mode=x&***",
            ),
            ("postgres://ann@h/d?a=sekret", "postgres://ann@h/d?a=***"),
            ("nats://sek?ret@h:x", "nats://:***@h:x"),
            ("postgres://ann@db:x/shop", "postgres://ann@db:x/shop"),
            (
                "nats://[::1]:4222,nats://h:1/x",
                "nats://[::1]:4222,nats://h:1/x",
            ),
            ("sqlite://a.db?cache=shared", "sqlite://a.db?cache=shared"),
            ("nats:payments.*", "nats:payments.*"),
            ("127.0.0.1:99999", "127.0.0.1:99999"),
            ("2026-11-29T08:00:00", "2026-11-29T08:00:00"),
            ("5m", "5m"),
        ] {
            assert_eq!(masked(value), expect, "{value}");
        }
    }
}
