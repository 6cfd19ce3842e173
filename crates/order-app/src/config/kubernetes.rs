//! The variables that Kubernetes sets for every service of a namespace, in every pod of it.
//!
//! For a service named `orderd` they look like settings of ours, but aren't.

/// Whether a variable is one that a service named `orderd` brings along.
pub(super) fn is_of_orderd(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("ORDERD_") else {
        return false;
    };
    rest == "SERVICE_HOST"
        || rest == "PORT"
        || rest.starts_with("SERVICE_PORT")
        || rest.strip_prefix("PORT_").is_some_and(is_of_a_port)
}

/// `8080_TCP`, `8080_TCP_ADDR` and so on.
fn is_of_a_port(rest: &str) -> bool {
    rest.split_once('_').is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether a variable looks like one that some other service brings along, `orderd-db` for instance.
pub(super) fn is_of_a_service(name: &str) -> bool {
    let is_after = |marker: &str| {
        name.match_indices(marker)
            .any(|(at, _)| is_of_a_port(&name[at + marker.len()..]))
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || is_after("_PORT_")
}

#[cfg(test)]
mod tests {
    use super::{is_of_a_service, is_of_orderd};

    #[test]
    fn what_kubernetes_sets_for_a_service_named_orderd_is_known() {
        for name in [
            "ORDERD_SERVICE_HOST",
            "ORDERD_SERVICE_PORT",
            "ORDERD_SERVICE_PORT_HTTP",
            "ORDERD_PORT",
            "ORDERD_PORT_8080_TCP",
            "ORDERD_PORT_8080_TCP_PROTO",
            "ORDERD_PORT_8080_TCP_PORT",
            "ORDERD_PORT_8080_TCP_ADDR",
            "ORDERD_PORT_53_UDP",
        ] {
            assert!(is_of_orderd(name), "{name}");
        }
        for (name, is_of_another) in [
            ("ORDERD_DB_SERVICE_HOST", true),
            ("ORDERD_DB_SERVICE_PORT_SQL", true),
            ("ORDERD_DB_PORT", true),
            ("ORDERD_DB_PORT_5432_TCP_ADDR", true),
            ("ORDERD_SERVICE_HOSTS", false),
            ("ORDERD_SERVICE", false),
            ("ORDERD_HTTP_PORT", true),
            ("ORDERD_PORTS", false),
            ("ORDERD_PORT_", false),
            ("ORDERD_PORT_X_TCP", false),
            ("ORDERD_PORT_8080", false),
            ("ORDERD_PORT__TCP", false),
            ("ORDERD_LIVEMOD", false),
            ("ORDERD_", false),
            ("DB_SERVICE_HOST", true),
        ] {
            assert!(!is_of_orderd(name), "{name}");
            assert_eq!(is_of_a_service(name), is_of_another, "{name}");
        }
    }
}
