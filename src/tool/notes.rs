//! Notes: what is missing from an answer, or different from the question, in words.
//!
//! Owns the wording for programs and models, which know the fields of a request, and for people,
//! who know the flags of the command line.

/// Something that a reader of an answer has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// No line has the text as it is; the matches are within so many edits of it (LSI §9).
    Approximate(u8),
    /// No line matches exactly; the matches are similar.
    Similar,
    /// More results exist than this limit.
    MaxResults(u64),
    /// More files were found than this limit.
    MaxFound {
        /// The limit.
        limit: u64,
        /// How many were found.
        total: u64,
    },
    /// More eligible files exist than this limit.
    MaxFiles(u64),
    /// In some file more lines match than this limit.
    MaxMatchesPerFile(u64),
    /// Some eligible file lies deeper than this limit.
    MaxDepth(u64),
    /// So many files are larger than a limit in bytes and were not searched.
    TooLarge {
        /// How many.
        files: u64,
        /// The limit.
        limit: u64,
    },
    /// No eligible file passed the globs or types.
    NoFilePassed {
        /// The globs or types, as the question has them.
        filters: Vec<String>,
        /// A glob that may have been meant.
        meant: Option<String>,
    },
    /// A glob that repeats the searched path was taken as another one.
    RepeatedPath {
        /// The glob of the request.
        glob: String,
        /// How it was taken.
        taken_as: String,
    },
    /// The output may have no more than so many bytes.
    Bytes(usize),
    /// So many files or directories are beside those that the list of errors names.
    FurtherErrors(u64),
    /// So many lines are longer than a limit in bytes and are shown in part.
    LongLines {
        /// How many.
        lines: u64,
        /// The limit.
        limit: u64,
    },
    /// The deadline passed after so many milliseconds.
    Deadline(u64),
    /// A request asked for more than a limit allows, so the limit was used instead.
    Capped {
        /// The field of the request.
        field: &'static str,
        /// What it asked for.
        asked: u64,
        /// The limit.
        cap: u64,
    },
}

/// Who reads a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A program or a model, which wrote JSON fields.
    Program,
    /// A person, who typed flags.
    Person,
    /// A model, which wrote JSON fields and reads lines.
    Model {
        /// The limit that the note is about can't be raised any further.
        at_cap: bool,
    },
}

impl Reader {
    /// Picks the words for the reader.
    fn pick<'a>(self, program: &'a str, person: &'a str) -> &'a str {
        match self {
            Reader::Program | Reader::Model { .. } => program,
            Reader::Person => person,
        }
    }
}

impl Note {
    /// Writes the advice to narrow a search, or to raise a limit that can be raised.
    fn advice(reader: Reader, narrow: &str, raise: &str) -> String {
        match reader {
            Reader::Model { at_cap: true } => narrow.to_string(),
            _ => format!("{narrow}, or raise {raise}"),
        }
    }

    /// Returns true if the note says that results are missing because of a limit.
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
        )
    }

    /// Writes the note: what it is about, and what to do.
    pub fn text(&self, reader: Reader) -> String {
        let name = |program, person| reader.pick(program, person);
        match self {
            Note::Approximate(level) => format!(
                "no line has the text as it is; these are the lines within {level} {}, as with {}{level}",
                if *level == 1 { "edit" } else { "edits" },
                name("fuzzy = ", "--fuzzy ")
            ),
            Note::Similar => "no line has the text as it is; these lines are similar".to_string(),
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
                "truncated: {}{limit} files were searched and further eligible files were not. {}",
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
                    _ => "events, or entries of `errors`,",
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
            Note::Capped { field, asked, cap } => {
                format!("{field} = {asked} is above the limit of {cap}, which was used instead")
            }
        }
    }
}

/// Writes the closing notes of a tool's answer, a line each.
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
