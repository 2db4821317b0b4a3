//! The macro for enums whose values have a word each, in configurations, messages and files.

/// Defines an enum with its words, so that `ALL` and `WORDS` are always complete.
macro_rules! choices {
    ($(
        $(#[$about:meta])+
        $name:ident { $( $(#[$says:meta])+ $variant:ident = $word:literal, )+ }
    )+) => {$(
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$says])+ $variant, )+
        }

        impl $name {
            /// All values, in the order of their documentation.
            #[doc(hidden)]
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The words of all values, in the order of `ALL`.
            #[doc(hidden)]
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the word for the value in a configuration.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Returns the value for a word.
            #[doc(hidden)]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

pub(crate) use choices;
