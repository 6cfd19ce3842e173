//! Enums with one word per variant, on every wire and in every table.

/// A text that isn't one of an enum's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {0}")]
pub struct UnknownWord(pub(crate) &'static str);

/// Defines an enum by its variants and their words. The literal lists the words for the error message.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, $expected:literal {
            $($(#[$doc:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every variant.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The word on every wire and in every table.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .into_iter()
                    .find(|known| known.as_str() == text)
                    .ok_or($crate::words::UnknownWord($expected))
            }
        }
    };
}
pub(crate) use words;
