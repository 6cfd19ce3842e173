//! Which hosts are loopback addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a host, as a URL or `Host` has it, is a loopback name or address: `localhost` and the
/// names under it (RFC 6761), `127.0.0.0/8`, `[::1]`, and the former mapped into IPv6.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bracketed = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = bracketed {
        return address.parse().is_ok_and(is_loopback_v6);
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return address.is_loopback();
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_label = |label: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && label.chars().all(fits)
    };
    name.split('.').all(is_label) && name.rsplit('.').next() == Some("localhost")
}

fn is_loopback_v6(address: Ipv6Addr) -> bool {
    match address.to_ipv4_mapped() {
        Some(mapped) => mapped.is_loopback(),
        None => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_names_and_addresses_of_this_machine_are_loopback() {
        for host in [
            "localhost",
            "LocalHost",
            "localhost.",
            "orderd.localhost",
            "127.0.0.1",
            "127.255.0.9",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::FFFF:7f00:1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            ".",
            "localhost..",
            ".localhost",
            "localhost.example",
            "notlocalhost",
            "local host",
            "evil.example,localhost",
            "evil.example#.localhost",
            "ann@localhost",
            "evil.example",
            "127.0.0.1.example",
            "127.1",
            "127.0.0.1.",
            "0x7f.0.0.1",
            "2130706433",
            "0.0.0.0",
            "10.0.0.1",
            "::1",
            "[::1",
            "[::]",
            "[::1%25lo]",
            "[::127.0.0.1]",
            "[::ffff:10.0.0.1]",
            "[fe80::1]",
            "lócalhost",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
