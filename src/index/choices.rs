//! The macro for enums whose values have a name each, in configurations, messages and files.

/// Defines an enum with its names, so that `ALL` and `NAMES` are always complete.
macro_rules! choices {
    ($(
        $(#[$about:meta])+
        $name:ident { $( $(#[$says:meta])+ $variant:ident = $text:literal, )+ }
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

            /// The names of all values, in the order of `ALL`.
            #[doc(hidden)]
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// Returns the name of the value in a configuration.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// Returns the value with a name.
            #[doc(hidden)]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == name)
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
