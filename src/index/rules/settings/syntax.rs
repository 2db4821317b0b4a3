//! The syntax of git's configuration files.

/// A line that sets a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    /// The section, in lower case.
    pub(super) section: &'a [u8],
    /// The subsection, as written.
    pub(super) subsection: Option<&'a [u8]>,
    /// The key, in lower case.
    pub(super) key: &'a [u8],
    /// The value; `None` where there is no `=`.
    pub(super) value: Option<&'a [u8]>,
}

/// Calls `each` with the settings of a file, in order, up to the first invalid line.
pub(super) fn each_setting(bytes: &[u8], each: &mut dyn FnMut(&Setting<'_>)) {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut input = Input { bytes, at: 0 };
    let (mut section, mut subsection) = (Vec::new(), None);
    while let Some(byte) = input.next() {
        match byte {
            b'#' | b';' => input.pass_line(),
            b'[' => match input.section() {
                Some(named) => (section, subsection) = named,
                None => return,
            },
            byte if is_space(byte) => {}
            byte if byte.is_ascii_alphabetic() => {
                let Some((key, value)) = input.setting(byte) else {
                    return;
                };
                each(&Setting {
                    section: &section,
                    subsection: subsection.as_deref(),
                    key: &key,
                    value: value.as_deref(),
                });
            }
            _ => return,
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

type Section = (Vec<u8>, Option<Vec<u8>>);

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    /// Returns the next byte. A carriage return with a line feed counts as one line feed.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        if byte == b'\r' && self.bytes.get(self.at) == Some(&b'\n') {
            self.at += 1;
            return Some(b'\n');
        }
        Some(byte)
    }

    /// Like [`Input::next`], but returns a line feed at the end of the file.
    fn next_in_line(&mut self) -> u8 {
        self.next().unwrap_or(b'\n')
    }

    fn pass_line(&mut self) {
        while self.next_in_line() != b'\n' {}
    }

    /// Parses a section, from the position after the bracket.
    fn section(&mut self) -> Option<Section> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => return Some((name, None)),
                byte if is_space(byte) => {
                    return self.subsection(byte).map(|sub| (name, Some(sub)));
                }
                byte if is_of_name(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
    }

    fn subsection(&mut self, space: u8) -> Option<Vec<u8>> {
        let mut byte = space;
        while is_space(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        let mut name = Vec::new();
        loop {
            let mut byte = self.next_in_line();
            if byte == b'"' {
                return (self.next()? == b']').then_some(name);
            }
            if byte == b'\\' {
                byte = self.next_in_line();
            }
            if byte == b'\n' {
                return None;
            }
            name.push(byte);
        }
    }

    /// Parses a key, from the position after its first letter, and its value.
    fn setting(&mut self, first: u8) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut key = vec![first.to_ascii_lowercase()];
        let mut byte = self.next_in_line();
        while is_of_name(byte) {
            key.push(byte.to_ascii_lowercase());
            byte = self.next_in_line();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next_in_line();
        }
        match byte {
            b'\n' => Some((key, None)),
            b'=' => self.value().map(|value| (key, Some(value))),
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let mut is_quoted = false;
        // Where the spaces begin that may turn out to be trailing.
        let mut end = None;
        loop {
            let mut byte = self.next_in_line();
            match byte {
                b'\n' if is_quoted => return None,
                b'\n' => break,
                byte if is_space(byte) && !is_quoted => {
                    end.get_or_insert(value.len());
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    self.pass_line();
                    break;
                }
                _ => end = None,
            }
            match byte {
                b'\\' => {
                    byte = match self.next_in_line() {
                        b'\n' => continue,
                        b't' => b'\t',
                        b'b' => 8,
                        b'n' => b'\n',
                        byte @ (b'\\' | b'"') => byte,
                        _ => return None,
                    };
                    value.push(byte);
                }
                b'"' => is_quoted = !is_quoted,
                byte => value.push(byte),
            }
        }
        value.truncate(end.unwrap_or(value.len()));
        Some(value)
    }
}
