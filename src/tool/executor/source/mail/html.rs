//! The visible text of HTML.
//!
//! This module owns the decision which text is visible, and where lines break. The tokenizer
//! follows the HTML standard. Style sheets and scripts have no effect: text that they hide counts
//! as visible.

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

/// Returns the visible text. White space is collapsed as in HTML, each block is on its own lines,
/// and table cells are separated by a space.
pub(super) fn shown(html: &str) -> String {
    let mut page = Page::default();
    page.read(html, true);
    // An unclosed `noscript`.
    if let Some(rest) = page.without_scripts.take() {
        page.read(&rest, false);
    }
    page.out
}

/// The output, and the state of the conversion.
#[derive(Debug, Default)]
struct Page {
    out: String,
    /// White space was read after the last text.
    space: bool,
    /// The depth in elements that keep white space.
    verbatim: u32,
    /// The depth in templates, which are invisible.
    templates: u32,
    /// The open element whose text is invisible.
    hidden: Option<Vec<u8>>,
    /// The content of `noscript`, which the tokenizer returns as one text.
    without_scripts: Option<String>,
}

impl Page {
    fn read(&mut self, html: &str, whole: bool) {
        let mut emitter = CallbackEmitter::new(
            |event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
                self.take(&event, whole);
                None
            },
        );
        emitter.naively_switch_states(true);
        // The callback handles all events and never returns a token, so the first `next` reads all
        // of it. Reading a string can't fail.
        let _ = Tokenizer::new_with_emitter(html, emitter).next();
    }

    fn take(&mut self, event: &CallbackEvent<'_>, whole: bool) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.open(name),
            CallbackEvent::EndTag { name } => self.close(name, whole),
            CallbackEvent::String { value } => {
                let text = String::from_utf8_lossy(value);
                match &mut self.without_scripts {
                    Some(html) => html.push_str(&text),
                    None => self.text(&text),
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, name: &[u8]) {
        match name {
            b"script" | b"style" | b"title" | b"iframe" | b"noembed" => {
                self.hidden = Some(name.to_vec());
            }
            b"noscript" => self.without_scripts = Some(String::new()),
            b"template" => self.templates += 1,
            _ => {}
        }
        self.apart(name);
        if is_verbatim(name) {
            self.verbatim += 1;
        }
    }

    fn close(&mut self, name: &[u8], whole: bool) {
        if self.hidden.as_deref() == Some(name) {
            self.hidden = None;
        }
        if name == b"template" {
            self.templates = self.templates.saturating_sub(1);
        }
        if name == b"noscript"
            && let Some(html) = self.without_scripts.take()
            && whole
        {
            // A nested `noscript` is ignored.
            self.read(&html, false);
            self.without_scripts = None;
        }
        if is_verbatim(name) {
            self.verbatim = self.verbatim.saturating_sub(1);
        }
        self.apart(name);
    }

    /// Separates an element from the text before or after it.
    fn apart(&mut self, name: &[u8]) {
        if is_cell(name) {
            self.space = true;
        } else if is_block(name) {
            self.space = false;
            if !self.at_start() && !self.is_hidden() {
                self.out.push('\n');
            }
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_hidden() {
            return;
        }
        if self.verbatim > 0 {
            self.out.push_str(text);
            return;
        }
        for c in text.chars() {
            if c.is_ascii_whitespace() {
                self.space = true;
                continue;
            }
            if std::mem::take(&mut self.space) && !self.at_start() {
                self.out.push(' ');
            }
            self.out.push(c);
        }
    }

    fn at_start(&self) -> bool {
        self.out.is_empty() || self.out.ends_with('\n')
    }

    fn is_hidden(&self) -> bool {
        self.hidden.is_some() || self.templates > 0
    }
}

fn is_verbatim(name: &[u8]) -> bool {
    matches!(
        name,
        b"pre" | b"textarea" | b"listing" | b"xmp" | b"plaintext"
    )
}

fn is_cell(name: &[u8]) -> bool {
    matches!(name, b"td" | b"th")
}

fn is_block(name: &[u8]) -> bool {
    matches!(
        name,
        b"address"
            | b"article"
            | b"aside"
            | b"blockquote"
            | b"body"
            | b"br"
            | b"caption"
            | b"center"
            | b"dd"
            | b"details"
            | b"dialog"
            | b"dir"
            | b"div"
            | b"dl"
            | b"dt"
            | b"fieldset"
            | b"figcaption"
            | b"figure"
            | b"footer"
            | b"form"
            | b"frameset"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"head"
            | b"header"
            | b"hgroup"
            | b"hr"
            | b"html"
            | b"legend"
            | b"li"
            | b"listing"
            | b"main"
            | b"menu"
            | b"nav"
            | b"ol"
            | b"optgroup"
            | b"option"
            | b"p"
            | b"plaintext"
            | b"pre"
            | b"search"
            | b"section"
            | b"summary"
            | b"table"
            | b"tbody"
            | b"tfoot"
            | b"thead"
            | b"tr"
            | b"ul"
            | b"xmp"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_searched_as_it_is_shown() {
        for (html, text) in [
            ("<p><b>Dear</b> John Smith,</p>", "Dear John Smith,\n"),
            ("a<br><b>Total:</b> 15 EUR", "a\nTotal: 15 EUR"),
            (
                "<a href=\"x\">Ann</a> wrote on\r\n Monday:",
                "Ann wrote on Monday:",
            ),
            ("<html><head><title>t</title><body><p>NEEDLE", "NEEDLE"),
            ("<td>Total</td><td>15</td></tr><tr><td>Sum", "Total 15\nSum"),
            ("<div>a</div><div>b</div><li class=x>c<LI>d", "a\nb\nc\nd"),
            ("a<br class=x>b<h1>one</h1>two", "a\nb\none\ntwo"),
            ("if 3 < 4 then I <3 you", "if 3 < 4 then I <3 you"),
            (
                "x<script type=\"a\">if (a<b) {}</script>y<STYLE media=a>z</style >w",
                "xyw",
            ),
            ("<head lang=en><title>t</title></head>a", "a"),
            (
                "f&uuml;r &lt;b&gt; &#x41;&nbsp;b &unknown;",
                "f\u{fc}r <b> A\u{a0}b &unknown;",
            ),
            (
                "a  <b> b</b> <pre>\n  c  d\n</pre> e",
                "a b\n\n  c  d\n e".replace("\n e", "\ne").as_str(),
            ),
            ("<template><p>no</p></template>yes", "yes"),
            ("<noscript><p>a <b>b</b></p></noscript>c", "a b\nc"),
            ("<noscript><noscript>x</noscript>c", "c"),
            ("<noscript>a<p>b", "a\nb"),
            ("<iframe>no</iframe>a<textarea> b  c</textarea>", "a b  c"),
            ("a<plaintext>b <p> c", "a\nb <p> c"),
        ] {
            assert_eq!(shown(html), text, "{html}");
        }
        for comment in [
            "<!---->",
            "<!-- x --->",
            "<!----------->",
            "<!-- x --!>",
            "<!x>",
            "<?x?>",
            "<![CDATA[x]]>",
        ] {
            assert_eq!(shown(&format!("{comment}NEEDLE")), "NEEDLE", "{comment}");
        }
    }

    #[test]
    fn html_of_any_kind_takes_little_more_than_its_length() {
        let many = 200_000;
        for part in [
            "<a b",
            " c=d",
            "<noscript>",
            "<template>",
            "&",
            "<pre>",
            "<!--",
            "<td>",
            "</",
        ] {
            let html = format!("<a {}", part.repeat(many));
            assert!(shown(&html).len() <= html.len() * 2, "{part}");
        }
        let attributes: String = (0..many).map(|n| format!(" a{n}=b")).collect();
        assert_eq!(shown(&format!("<a{attributes}>x")), "x");
    }
}
