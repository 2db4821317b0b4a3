//! Stems of English words: Porter's algorithm of 1980.
//!
//! Two forms of a word have one stem, such as `retries` and `retrying`. Only words of lower-case
//! ASCII letters are changed. Every other word is its own stem.

/// Replaces a word with its stem. The stem is never longer than the word. Takes time linear in its
/// length.
///
/// # Examples
///
/// ```
/// use forge_search::internal::index::words::stem::stem;
///
/// let mut word = b"retries".to_vec();
/// stem(&mut word);
/// assert_eq!(word, b"retri");
/// ```
pub fn stem(word: &mut Vec<u8>) {
    if word.len() <= 2 || !word.iter().all(u8::is_ascii_lowercase) {
        return;
    }
    plurals(word);
    past_and_progressive(word);
    if word.ends_with(b"y") && has_vowel(&word[..word.len() - 1]) {
        replace_end(word, 1, b"i");
    }
    longer_suffixes(word, &DOUBLE_SUFFIXES, 0);
    longer_suffixes(word, &ADJECTIVE_SUFFIXES, 0);
    residual_suffixes(word);
    final_letters(word);
}

/// Suffixes that are two suffixes in a row, and the first of the two.
const DOUBLE_SUFFIXES: [(&[u8], &[u8]); 21] = [
    (b"ational", b"ate"),
    (b"tional", b"tion"),
    (b"enci", b"ence"),
    (b"anci", b"ance"),
    (b"izer", b"ize"),
    (b"bli", b"ble"),
    (b"alli", b"al"),
    (b"entli", b"ent"),
    (b"eli", b"e"),
    (b"ousli", b"ous"),
    (b"ization", b"ize"),
    (b"ation", b"ate"),
    (b"ator", b"ate"),
    (b"alism", b"al"),
    (b"iveness", b"ive"),
    (b"fulness", b"ful"),
    (b"ousness", b"ous"),
    (b"aliti", b"al"),
    (b"iviti", b"ive"),
    (b"biliti", b"ble"),
    (b"logi", b"log"),
];

/// Suffixes of adjectives and of the nouns and verbs made from them.
const ADJECTIVE_SUFFIXES: [(&[u8], &[u8]); 7] = [
    (b"icate", b"ic"),
    (b"ative", b""),
    (b"alize", b"al"),
    (b"iciti", b"ic"),
    (b"ical", b"ic"),
    (b"ful", b""),
    (b"ness", b""),
];

/// Suffixes that go where enough of the word is left.
const RESIDUAL_SUFFIXES: [&[u8]; 19] = [
    b"al", b"ance", b"ence", b"er", b"ic", b"able", b"ible", b"ant", b"ement", b"ment", b"ent",
    b"ion", b"ou", b"ism", b"ate", b"iti", b"ous", b"ive", b"ize",
];

fn plurals(word: &mut Vec<u8>) {
    if word.ends_with(b"sses") || word.ends_with(b"ies") {
        replace_end(word, 2, b"");
    } else if word.ends_with(b"s") && !word.ends_with(b"ss") {
        replace_end(word, 1, b"");
    }
}

fn past_and_progressive(word: &mut Vec<u8>) {
    if word.ends_with(b"eed") {
        if measure(&word[..word.len() - 3]) > 0 {
            replace_end(word, 1, b"");
        }
        return;
    }
    let suffix = [&b"ed"[..], b"ing"]
        .into_iter()
        .find(|suffix| word.ends_with(suffix) && has_vowel(&word[..word.len() - suffix.len()]));
    let Some(suffix) = suffix else { return };
    replace_end(word, suffix.len(), b"");
    if word.ends_with(b"at") || word.ends_with(b"bl") || word.ends_with(b"iz") {
        word.push(b'e');
    } else if ends_in_double_consonant(word) && !matches!(word.last(), Some(b'l' | b's' | b'z')) {
        word.pop();
    } else if measure(word) == 1 && ends_in_short_syllable(word) {
        word.push(b'e');
    }
}

/// Returns true if a word ends with a suffix. Two letters rule out most suffixes of a list.
#[inline]
fn has_suffix(word: &[u8], suffix: &[u8]) -> bool {
    word.len().checked_sub(suffix.len()).is_some_and(|at| {
        word.last() == suffix.last() && word.get(at) == suffix.first() && word[at..] == *suffix
    })
}

/// Replaces the longest suffix of a list, if the measure of what stands before it is over
/// `more_than`.
fn longer_suffixes(word: &mut Vec<u8>, suffixes: &[(&[u8], &[u8])], more_than: usize) {
    let longest = suffixes
        .iter()
        .filter(|(suffix, _)| has_suffix(word, suffix))
        .max_by_key(|(suffix, _)| suffix.len());
    if let Some((suffix, replacement)) = longest
        && measure(&word[..word.len() - suffix.len()]) > more_than
    {
        replace_end(word, suffix.len(), replacement);
    }
}

fn residual_suffixes(word: &mut Vec<u8>) {
    let longest = RESIDUAL_SUFFIXES
        .iter()
        .filter(|suffix| has_suffix(word, suffix))
        .max_by_key(|suffix| suffix.len());
    let Some(suffix) = longest else { return };
    let before = &word[..word.len() - suffix.len()];
    let is_allowed = *suffix != b"ion" || matches!(before.last(), Some(b's' | b't'));
    if is_allowed && measure(before) > 1 {
        replace_end(word, suffix.len(), b"");
    }
}

fn final_letters(word: &mut Vec<u8>) {
    if let [before @ .., b'e'] = &word[..] {
        let measure = measure(before);
        if measure > 1 || measure == 1 && !ends_in_short_syllable(before) {
            word.pop();
        }
    }
    if word.ends_with(b"ll") && measure(word) > 1 {
        word.pop();
    }
}

fn replace_end(word: &mut Vec<u8>, len: usize, by: &[u8]) {
    word.truncate(word.len() - len);
    word.extend_from_slice(by);
}

/// Whether the letter at a place is a consonant. `y` is one at the start of a word and after a
/// vowel.
fn is_consonant(word: &[u8], at: usize) -> bool {
    match word[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        b'y' => at == 0 || !is_consonant(word, at - 1),
        _ => true,
    }
}

fn has_vowel(word: &[u8]) -> bool {
    (0..word.len()).any(|at| !is_consonant(word, at))
}

/// Counts how often a consonant follows a vowel: `tree` has 0 such places, `trouble` 1, `private`
/// 2.
fn measure(word: &[u8]) -> usize {
    let mut was_vowel = false;
    let mut count = 0;
    for at in 0..word.len() {
        let is_vowel = !is_consonant(word, at);
        count += usize::from(was_vowel && !is_vowel);
        was_vowel = is_vowel;
    }
    count
}

fn ends_in_double_consonant(word: &[u8]) -> bool {
    matches!(word, [.., a, b] if a == b) && is_consonant(word, word.len() - 1)
}

/// Whether a word ends with consonant, vowel, consonant, and the last is not `w`, `x` or `y`, as
/// `hop` does.
fn ends_in_short_syllable(word: &[u8]) -> bool {
    let len = word.len();
    len >= 3
        && is_consonant(word, len - 3)
        && !is_consonant(word, len - 2)
        && is_consonant(word, len - 1)
        && !matches!(word[len - 1], b'w' | b'x' | b'y')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem_of(word: &str) -> String {
        let mut bytes = word.as_bytes().to_vec();
        stem(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn stems_are_those_of_the_published_algorithm() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("cats", "cat"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("bled", "bled"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("troubled", "troubl"),
            ("sized", "size"),
            ("hopping", "hop"),
            ("tanned", "tan"),
            ("falling", "fall"),
            ("hissing", "hiss"),
            ("fizzed", "fizz"),
            ("failing", "fail"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("conditional", "condit"),
            ("rational", "ration"),
            ("valenci", "valenc"),
            ("digitizer", "digit"),
            ("vietnamization", "vietnam"),
            ("predication", "predic"),
            ("operator", "oper"),
            ("feudalism", "feudal"),
            ("decisiveness", "decis"),
            ("hopefulness", "hope"),
            ("formaliti", "formal"),
            ("sensibiliti", "sensibl"),
            ("triplicate", "triplic"),
            ("formative", "form"),
            ("electrical", "electr"),
            ("goodness", "good"),
            ("revival", "reviv"),
            ("allowance", "allow"),
            ("airliner", "airlin"),
            ("adjustable", "adjust"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("communism", "commun"),
            ("probate", "probat"),
            ("rate", "rate"),
            ("cease", "ceas"),
            ("controll", "control"),
            ("roll", "roll"),
        ] {
            assert_eq!(stem_of(word), expected, "{word}");
        }
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["retry", "retries", "retrying", "retried"][..],
            &["cache", "caching", "cached", "caches"],
            &["connect", "connection", "connecting", "connected"],
            &["parse", "parses", "parsing", "parsed"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem_of(form)).collect();
            assert!(stems.iter().all(|one| *one == stems[0]), "{stems:?}");
        }
    }

    #[test]
    fn words_with_other_letters_are_their_own_stems() {
        for word in ["", "as", "io", "x86s", "Ties", "größes"] {
            assert_eq!(stem_of(word), word);
        }
    }
}
