//! Amounts, with as many decimals as their currency has.

use order_fsm::{Amount, Currency};

/// An amount with its currency: `10.00 EUR`, `1000 JPY`.
pub(crate) fn money(amount: Amount, currency: Currency) -> String {
    let minor_units = amount.minor_units().unsigned_abs();
    let decimals = currency.decimals();
    let unit = 10_u64.pow(decimals);
    let (whole, rest) = (minor_units / unit, minor_units % unit);
    match decimals {
        0 => format!("{whole} {currency}"),
        _ => format!(
            "{whole}.{rest:0width$} {currency}",
            width = decimals as usize
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_currency_has_its_own_decimals() {
        for (minor_units, currency, expect) in [
            (1000, "EUR", "10.00 EUR"),
            (5, "EUR", "0.05 EUR"),
            (1000, "JPY", "1000 JPY"),
            (1005, "KWD", "1.005 KWD"),
            (Amount::MAX, "CNY", "90071992547409.91 CNY"),
            // Gold has no minor unit.
            (7, "XAU", "7 XAU"),
        ] {
            let amount = minor_units.try_into().unwrap();
            assert_eq!(money(amount, currency.parse().unwrap()), expect);
        }
    }
}
