//! The decision on systems that do not show who made a pipe, such as Windows: standard input is
//! never read without being named. A caller names it with the path `-`.

use super::Input;

pub(in crate::tool::cli) fn decide() -> Input {
    Input::Tree
}

pub(in crate::tool::cli) fn is_piped() -> bool {
    false
}

pub(in crate::tool::cli) fn is_unread() -> bool {
    false
}
