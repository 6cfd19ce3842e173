//! The ids and the money of the contract: parsed once at the edge, trusted from then on.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// Why a text isn't a valid id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// Empty, or longer than allowed.
    #[error("must have 1 to {max} characters")]
    Length {
        /// The maximum number of characters.
        max: usize,
    },
    /// A character outside the alphabet.
    #[error("may only contain {alphabet}")]
    Alphabet {
        /// The characters allowed.
        alphabet: &'static str,
    },
    /// The first character isn't a letter or digit.
    #[error("must start with a letter or digit")]
    Start,
}

/// Why a text or number isn't a valid amount or currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMoney {
    /// Zero, negative or greater than 2^53-1.
    #[error("must be an integer of minor units from 1 to {}", Amount::MAX)]
    Amount,
    /// Not an ISO 4217 alphabetic code.
    #[error("must be an ISO 4217 alphabetic code")]
    Currency,
}

fn parse_id(text: &str) -> Result<(), InvalidId> {
    const MAX: usize = 64;
    if text.is_empty() || text.len() > MAX {
        return Err(InvalidId::Length { max: MAX });
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
    if !text.bytes().all(allowed) {
        return Err(InvalidId::Alphabet {
            alphabet: "A-Z a-z 0-9 . _ : -",
        });
    }
    if text.as_bytes()[0].is_ascii_alphanumeric() {
        Ok(())
    } else {
        Err(InvalidId::Start)
    }
}

fn parse_provider(text: &str) -> Result<(), InvalidId> {
    const MAX: usize = 32;
    if text.is_empty() || text.len() > MAX {
        return Err(InvalidId::Length { max: MAX });
    }
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if text.bytes().all(allowed) {
        Ok(())
    } else {
        Err(InvalidId::Alphabet {
            alphabet: "a-z 0-9 _ -",
        })
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $parse:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The id as it was given; ids are compared byte for byte.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $parse(text).map(|()| Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(
    /// The business id of an order, chosen by the caller.
    OrderId,
    parse_id
);
id!(
    /// The payment provider's id of a transaction.
    TransactionId,
    parse_id
);
id!(
    /// The label of a message; it doesn't identify the payment.
    EventId,
    parse_id
);
id!(
    /// A payment provider.
    Provider,
    parse_provider
);

/// Money in minor units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

impl Amount {
    /// 2^53-1, the largest integer that every JSON reader holds exactly.
    pub const MAX: i64 = 9_007_199_254_740_991;

    /// The minor units.
    pub const fn minor_units(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Amount {
    type Error = InvalidMoney;

    fn try_from(minor_units: i64) -> Result<Self, Self::Error> {
        if (1..=Self::MAX).contains(&minor_units) {
            Ok(Self(minor_units))
        } else {
            Err(InvalidMoney::Amount)
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An ISO 4217 alphabetic code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(iso_code::Code);

impl Currency {
    /// The three letters.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// How many decimals its minor unit has; none if it has no minor unit.
    pub fn decimals(&self) -> u32 {
        let listed = iso_currency::Currency::from_code(self.as_str());
        listed
            .and_then(iso_currency::Currency::exponent)
            .map_or(0, u32::from)
    }
}

impl FromStr for Currency {
    type Err = InvalidMoney;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        iso_code::Code::parse(text)
            .map(Self)
            .ok_or(InvalidMoney::Currency)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Three ASCII capitals that are in the ISO list: the invariant that makes `as_str` infallible.
mod iso_code {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(super) struct Code([u8; 3]);

    impl Code {
        pub(super) fn parse(text: &str) -> Option<Self> {
            let letters: [u8; 3] = text.as_bytes().try_into().ok()?;
            let listed = letters.iter().all(u8::is_ascii_uppercase)
                && iso_currency::Currency::from_code(text).is_some();
            listed.then_some(Self(letters))
        }

        pub(super) fn as_str(&self) -> &str {
            std::str::from_utf8(&self.0).expect("three ASCII capitals")
        }
    }
}
