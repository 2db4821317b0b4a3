//! Notes: how an answer is incomplete or differs from the question, in words.
//!
//! This module owns the wording. Programs and models read the names of request fields, people read
//! the flags of the command line.

/// Information that a reader of an answer needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// No line has the exact text; the matches are within this number of edits.
    Approximate(u8),
    /// No line matches exactly; the matches are similar.
    Similar,
    /// More results exist than this limit.
    MaxResults(u64),
    /// More files were found than this limit.
    MaxFound {
        /// The limit that was exceeded, in files.
        limit: u64,
        /// The number of files found.
        total: u64,
    },
    /// More eligible files exist than this limit.
    MaxFiles(u64),
    /// A file has more matching lines than this limit.
    MaxMatchesPerFile(u64),
    /// An eligible file lies deeper than this limit.
    MaxDepth(u64),
    /// Files larger than a limit in bytes were not searched.
    TooLarge {
        /// The number of these files.
        files: u64,
        /// The limit that they exceed, in bytes.
        limit: u64,
    },
    /// The globs or types excluded every eligible file.
    NoFilePassed {
        /// The globs or types of the question.
        filters: Vec<String>,
        /// A glob that the caller may have meant.
        meant: Option<String>,
    },
    /// A glob that repeats the searched path was replaced.
    RepeatedPath {
        /// The glob of the request.
        glob: String,
        /// The glob that was used instead.
        taken_as: String,
    },
    /// The output was limited to this number of bytes.
    Bytes(usize),
    /// This number of files or directories with errors is missing from the list of errors.
    FurtherErrors(u64),
    /// Lines longer than a limit in bytes are shown in part.
    LongLines {
        /// The number of these lines.
        lines: u64,
        /// The limit that they exceed, in bytes.
        limit: u64,
    },
    /// The deadline passed after this number of milliseconds.
    Deadline(u64),
    /// More places match than this limit; the best ones are shown.
    BestPlaces(u64),
    /// A limit of a ranked search has left out something.
    Limited {
        /// The name of the limit.
        limit: String,
        /// The value of the limit.
        value: u64,
        /// The file to which the limit was applied, if it is a limit for each file.
        path: Option<String>,
    },
    /// A warning of a ranked search, in words.
    Warning(String),
    /// The deadline passed after this number of milliseconds, before there was any result.
    NoTime(u64),
    /// A request set a value above its limit, so the limit was used instead.
    Capped {
        /// The field of the request.
        field: &'static str,
        /// The requested value.
        asked: u64,
        /// The limit, which was used instead.
        cap: u64,
    },
}

/// The reader of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A program or model that wrote JSON fields.
    Program,
    /// A person who typed flags.
    Person,
    /// A model that wrote JSON fields and reads lines of text.
    Model {
        /// Whether the limit in the note is at its cap and can't be raised.
        at_cap: bool,
    },
}

impl Reader {
    /// Returns the words for this reader.
    fn pick<'a>(self, program: &'a str, person: &'a str) -> &'a str {
        match self {
            Reader::Program | Reader::Model { .. } => program,
            Reader::Person => person,
        }
    }
}

impl Note {
    /// Returns the advice to narrow a search, or to raise a limit that is below its cap.
    fn advice(reader: Reader, narrow: &str, raise: &str) -> String {
        match reader {
            Reader::Model { at_cap: true } => narrow.to_string(),
            _ => format!("{narrow}, or raise {raise}"),
        }
    }

    /// Returns true if the note reports results that are missing because of a limit.
    pub fn is_cut(&self) -> bool {
        matches!(
            self,
            Note::MaxResults(_)
                | Note::MaxFound { .. }
                | Note::MaxFiles(_)
                | Note::MaxMatchesPerFile(_)
                | Note::MaxDepth(_)
                | Note::Bytes(_)
                | Note::Deadline(_)
                | Note::BestPlaces(_)
                | Note::Limited { .. }
                | Note::NoTime(_)
        )
    }

    /// Returns the text of the note: the fact and the remedy.
    #[expect(clippy::too_many_lines, reason = "a table: one text for each note")]
    pub fn text(&self, reader: Reader) -> String {
        let name = |program, person| reader.pick(program, person);
        match self {
            Note::Approximate(level) => format!(
                "no line contains the exact text; these lines match within {level} {}, as with \
                 {}{level}",
                if *level == 1 { "edit" } else { "edits" },
                name("fuzzy = ", "--fuzzy ")
            ),
            Note::Similar => "no line contains the exact text; these lines are similar".to_string(),
            Note::MaxResults(limit) => format!(
                "truncated: more than {}{limit} results exist; further files were not searched. {}",
                name("max_results = ", "--max-results "),
                match reader {
                    Reader::Person =>
                        "Narrow the search, or raise --max-results (0 shows all)".to_string(),
                    _ => Note::advice(reader, "Narrow the pattern, path or globs", "max_results"),
                }
            ),
            Note::MaxFound { limit, total } => format!(
                "truncated: {total} files were found, and {limit} are shown. {}",
                Note::advice(reader, "Narrow name, globs or path", "max_results")
            ),
            Note::MaxFiles(limit) => format!(
                "truncated: {}{limit} files were searched, and further eligible files were not. {}",
                name("max_files = ", "--max-files "),
                Note::advice(
                    reader,
                    "Narrow the path or globs",
                    name("max_files", "--max-files")
                )
            ),
            Note::MaxMatchesPerFile(limit) => format!(
                "truncated: some files have more matches than {}{limit} and show only the first. {}",
                name("max_matches_per_file = ", "-m "),
                match reader {
                    Reader::Model { at_cap: true } => "Narrow the pattern".to_string(),
                    _ => Note::advice(
                        reader,
                        "Search such a file by itself",
                        name("max_matches_per_file", "-m")
                    ),
                }
            ),
            Note::MaxDepth(limit) => format!(
                "truncated: files in directories deeper than {}{limit} were not searched. {}",
                name("max_depth = ", "-d "),
                Note::advice(
                    reader,
                    "Search a directory further down",
                    name("max_depth", "-d")
                )
            ),
            Note::TooLarge { files, limit } => {
                let (are, were, them) = match *files {
                    1 => ("file is", "was", "it"),
                    _ => ("files are", "were", "them"),
                };
                let advice = match reader {
                    Reader::Model { at_cap: true } => String::new(),
                    _ => format!(
                        ". Raise {} to search {them}",
                        name("max_file_size_bytes", "--max-filesize")
                    ),
                };
                format!(
                    "{files} {are} larger than {}{limit} bytes and {were} not searched{advice}",
                    name("max_file_size_bytes = ", "--max-filesize "),
                )
            }
            Note::NoFilePassed { filters, meant } => {
                let filters = filters.join(", ");
                let base = name("the searched `path`", "the working directory");
                let meant = match meant {
                    Some(meant) => format!("; did you mean `{meant}`?"),
                    None => String::new(),
                };
                format!(
                    "no file was searched: no eligible file matches {filters}. Globs are relative to {base}{meant}"
                )
            }
            Note::RepeatedPath { glob, taken_as } => format!(
                "the glob `{glob}` was taken as `{taken_as}`: globs are relative to the searched `path`"
            ),
            Note::Bytes(limit) => format!(
                "truncated: the output was cut to fit {limit} bytes; {} are missing. Narrow the search",
                match reader {
                    Reader::Model { .. } => "lines, or errors,",
                    _ => "results, or entries of `errors`,",
                }
            ),
            Note::FurtherErrors(1) => {
                "1 further file or directory was not searched completely".to_string()
            }
            Note::FurtherErrors(count) => {
                format!("{count} further files or directories were not searched completely")
            }
            Note::LongLines { lines, limit } => format!(
                "{lines} {} longer than {limit} bytes and shown in part, around the match{}",
                if *lines == 1 { "line is" } else { "lines are" },
                match reader {
                    Reader::Model { .. } => "",
                    _ => "; columns are those of the whole line",
                }
            ),
            Note::Deadline(limit) => format!(
                "timed out after {limit} ms: these are the first results; further files were not \
                 searched. Narrow the search or raise {}",
                name("timeout_ms", "--timeout-ms")
            ),
            Note::BestPlaces(limit) => format!(
                "the best places are shown, at most {limit}; more match. {}",
                Note::advice(
                    reader,
                    "Ask more precisely, or search a `path`",
                    "max_results"
                )
            ),
            Note::Limited { limit, value, path } => {
                let path = path.as_deref().map(|path| format!("{path}: "));
                format!(
                    "{}shortened by the limit {limit} = {value}",
                    path.unwrap_or_default()
                )
            }
            Note::Warning(text) => text.clone(),
            Note::NoTime(limit) => format!(
                "timed out after {limit} ms, before anything was found. Raise {}, or search a `path`",
                name("timeout_ms", "--timeout-ms")
            ),
            Note::Capped { field, asked, cap } => {
                format!("{field} = {asked} is above the limit of {cap}, which was used instead")
            }
        }
    }
}

/// Formats the closing notes of a tool's answer, one per line.
pub fn closing_notes(notes: &[Note]) -> String {
    let lines = notes.iter().map(|note| note.text(Reader::Program));
    lines.map(|line| format!("[{line}]\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_name_the_limit_in_the_words_of_the_reader() {
        let notes = [Note::MaxResults(200), Note::Deadline(50)];
        let text = closing_notes(&notes);
        assert!(text.contains("max_results = 200") && text.contains("50 ms"));
        assert!(text.contains("not searched") && text.contains("raise timeout_ms"));
        let person = notes[0].text(Reader::Person);
        assert!(person.contains("--max-results 200") && !person.contains("max_results"));
        assert_eq!(closing_notes(&[]), "");
    }

    #[test]
    fn every_note_has_words_for_people_without_fields() {
        let notes = [
            Note::Approximate(1),
            Note::Similar,
            Note::MaxResults(1),
            Note::MaxFiles(1),
            Note::MaxMatchesPerFile(1),
            Note::MaxDepth(1),
            Note::TooLarge { files: 2, limit: 5 },
            Note::NoFilePassed {
                filters: vec!["src/**".into()],
                meant: None,
            },
            Note::FurtherErrors(1),
            Note::LongLines { lines: 1, limit: 5 },
            Note::Deadline(1),
        ];
        for note in notes {
            let text = note.text(Reader::Person);
            assert!(!text.contains('_'), "{text}");
        }
    }
}
