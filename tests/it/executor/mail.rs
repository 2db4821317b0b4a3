//! Tests searches over e-mails: a mailbox written by hand, one that a mail tool made, and the
//! public test messages of the mail parser.

use forge_search::internal::tool::executor::source::scan_mbox;

use super::*;
use crate::project_files::dependency;

const MESSAGES: [&str; 6] = [
    // Encoded words, a display name and quoted-printable. The message was received later than it
    // was sent.
    "Received: from a by b; Thu, 1 Jan 2026 10:00:00 +0200\n\
     From: =?utf-8?q?J=C3=B6rg_N=C3=A4del?= <joerg@needle.example>\n\
     To: A <a@x.example>, \"needle, the\" <b@x.example>\n\
     Subject: =?utf-8?B?ZWluZSBuZWVkbGU=?=\n\
     Date: Wed, 31 Dec 2025 10:00:00 +0000\n\
     Message-ID: <2@x>\n\
     Content-Type: text/plain; charset=iso-8859-1\n\
     Content-Transfer-Encoding: quoted-printable\n\nsch=F6ne ne=\nedle\n",
    // HTML only, base64.
    "Date: Thu, 1 Jan 2026 07:00:00 +0000\nFrom: c@x.example\nTo: d@x.example\nSubject: html\nMessage-ID: <%1@x>\n\
     MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: base64\n\n\
     PGh0bWw+PGJvZHk+PHA+YSA8Yj5uZWVkbGU8L2I+ICZhbXA7IG1vcmU8L3A+PC9ib2R5PjwvaHRtbD4=\n",
    // The attachment holds the word, and the text does not.
    "Date: Thu, 1 Jan 2026 09:00:00 +0000\nFrom: c@x.example\nTo: d@x.example\nSubject: attached\nMessage-ID: <3@x>\n\
     MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"=b\"\n\n\
     --=b\nContent-Type: text/plain\n\nnothing here\n\
     --=b\nContent-Type: text/plain; name=n.txt\nContent-Disposition: attachment; filename=n.txt\n\nneedle\n--=b--\n",
    // No valid time.
    "From: c@x.example\nSubject: needle\nMessage-ID: <4@x>\n\nneedle\n",
    "From: c@x.example\nDate: yesterday\nSubject: needle\n\nneedle\n",
    // The same time as the second message, and no id.
    "Date: Thu, 1 Jan 2026 08:00:00 +0100\nFrom: c@x.example\nTo: d@x.example\nSubject: no id\n\n>From the needle\n",
];

fn expected() -> Vec<(&'static str, &'static str, &'static str)> {
    let no_id = "sha";
    vec![
        ("%1@x", "body", "a needle & more"),
        (no_id, "body", ">From the needle"),
        ("2@x", "from", "Jörg Nädel <joerg@needle.example>"),
        ("2@x", "to", "A <a@x.example>, needle, the <b@x.example>"),
        ("2@x", "subject", "eine needle"),
        ("2@x", "body", "schöne needle"),
    ]
}

#[track_caller]
fn check(execution: &Execution, unquoted: bool) {
    let value = ok(execution);
    assert_eq!(value["count"], 6, "{value}");
    assert_eq!(execution.passed_over, 2);
    for ((id, field, snippet), expected) in results(&value).into_iter().zip(expected()) {
        match expected.0 {
            "sha" => assert!(
                id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()),
                "{id}"
            ),
            expected => assert_eq!(id, expected),
        }
        assert_eq!(field, expected.1);
        let snippet = snippet.trim_end_matches("\\n");
        match unquoted && expected.2.starts_with('>') {
            true => assert_eq!(snippet, &expected.2[1..]),
            false => assert_eq!(snippet, expected.2),
        }
    }
}

#[test]
fn mail_in_an_mbox_is_found_by_its_texts_in_order_of_time() {
    let mut world = World::new();
    let all: String = MESSAGES
        .iter()
        .map(|message| format!("From x Thu Jan  1 00:00:00 2026\n{message}\n"))
        .collect();
    world.write("m.mbox", all);
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    check(
        &world.run(&world.real(), "t", "SEARCH_EMAILS", "mail", "needle"),
        true,
    );
    world.write("empty.mbox", "");
    world.scope("empty", ScopeKind::Mbox, "empty.mbox");
    let none = ok(&world.run(&world.real(), "e", "SEARCH_EMAILS", "empty", "needle"));
    assert_eq!(none["count"], 0);
}

#[test]
fn mail_in_a_maildir_is_found_in_all_folders_but_not_during_delivery() {
    let mut world = World::new();
    for (nth, message) in MESSAGES.iter().enumerate() {
        let dir = ["cur", "new", ".Archive/cur"][nth % 3];
        world.write(&format!("mail/{dir}/{nth}.host:2,S"), message);
    }
    world.write("mail/tmp/9.host", MESSAGES[0]);
    world.write("mail/cur/sub/9.host", MESSAGES[0]);
    world.write("mail/cur/.9.host", MESSAGES[0]);
    std::os::unix::fs::symlink(
        world.path("mail/cur/0.host:2,S"),
        world.path("mail/cur/8.host"),
    )
    .unwrap();
    world.scope("mail", ScopeKind::Maildir, "mail");
    check(
        &world.run(&world.real(), "t", "SEARCH_EMAILS", "mail", "needle"),
        false,
    );
}

/// Searches an mbox of one message. Returns how many fields have `hay`, and how many messages were
/// skipped.
fn alone(world: &World, executor: &Executor, nth: usize, message: &str) -> (u64, u64) {
    world.write(
        "m.mbox",
        format!("From x Thu Jan  1 00:00:00 2026\n{message}"),
    );
    let execution = world.run(executor, &format!("m{nth}"), "SEARCH_EMAILS", "mail", "hay");
    (
        ok(&execution)["count"].as_u64().unwrap(),
        execution.passed_over,
    )
}

#[test]
fn mail_times_are_read_without_the_text_after_them() {
    let mut world = World::new();
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let executor = world.real();
    let of = |nth: usize, header: &str| {
        let message = format!("{header}\nSubject: hay subject\n\nhay body\n");
        alone(&world, &executor, nth, &message)
    };
    for (nth, valid) in [
        "Date: Sat, 3 Jan 2026 01:05:34 UT",
        "Date: Sat, 3 Jan 2026 01:05:34 Z",
        "Date: Sat, 3 Jan 2026 01:05:34 GMT",
        "Date: 3 Jan 96 01:05 GMT",
        "Date: Sat,\n 3 Jan 2026\n 01:05:34 +0100 (a comment)",
        "Received: from a; Sat, 3 Jan 2026 01:05:34 +0100\nDate: nonsense",
        "Received: from a (b;c) by d;\n Sat, 3 Jan 2026 01:05:34 +0000 (a;b (c))",
        "Date: Sat (x), 3(y) Jan 2026 01 : 05(z):34 +0000",
        "Received: nonsense\nDate: Sat, 3 Jan 2026 01:05:34 +0100",
        "Date: Mon, 3 Jan 2026 01:05:34 -0000",
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(of(nth, valid), (2, 0), "{valid}");
    }
    for (nth, wrong) in [
        "Date: Sun, 30 Feb 2026 01:05:34 +0000",
        "Date: Sat, 3 Jan 2026 25:05:34 +0000",
        "Date: yesterday",
        "Date:",
        "X: y",
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(of(100 + nth, wrong), (0, 1), "{wrong}");
    }
}

#[test]
fn a_message_that_was_cut_off_is_searched_to_its_end() {
    let mut world = World::new();
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let executor = world.real();
    let start = "Date: Sat, 3 Jan 2026 01:05:34 GMT\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n";
    let one = format!("{start}--b\nContent-Type: text/plain\n\nhay\n");
    assert_eq!(alone(&world, &executor, 1, &one), (1, 0));
    let two = format!(
        "{start}--b\nContent-Type: text/plain\n\nnone\n--b\nContent-Type: text/html\n\n<p>hay"
    );
    assert_eq!(alone(&world, &executor, 2, &two), (1, 0));
}

/// Returns the headers of a multipart message.
fn in_parts(kind: &str, boundary: &str) -> String {
    format!("Content-Type: multipart/{kind}; boundary=\"{boundary}\"\n")
}

const DATE: &str = "Date: Sat, 3 Jan 2026 01:05:34 GMT\nMIME-Version: 1.0\n";

#[test]
fn texts_of_all_kinds_are_searched_unless_they_are_attached() {
    let mut world = World::new();
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let executor = world.real();
    let kinds = [
        "text/plain",
        "text/html",
        "text/markdown",
        "text/calendar; method=REQUEST",
        "text/x-diff; name=a.diff",
        "text/csv",
        "text",
        "TEXT/Enriched",
    ];
    let mut nth = 0;
    let mut of = |message: String| {
        nth += 1;
        alone(&world, &executor, nth, &message)
    };
    let mixed = in_parts("mixed", "b");
    for kind in kinds {
        let part = format!("Content-Type: {kind}\n\n<p>hay\n");
        assert_eq!(of(format!("{DATE}{part}")), (1, 0), "{kind}");
        let inline = format!("{DATE}{mixed}\n--b\n\nnone\n--b\n{part}\n--b--\n");
        assert_eq!(of(inline), (1, 0), "{kind}");
        let first = format!("{DATE}{mixed}\n--b\n{part}\n--b\n\nnone\n--b--\n");
        assert_eq!(of(first), (1, 0), "{kind}");
        let attached = format!("Content-Disposition: attachment; filename=a\n{part}");
        let within = format!("{DATE}{mixed}\n--b\n\nnone\n--b\n{attached}\n--b--\n");
        assert_eq!(of(within), (0, 0), "{kind}");
        assert_eq!(of(format!("{DATE}{attached}")), (0, 0), "{kind}");
    }
    // Of alternatives, and of related parts, only one is the text.
    let plain = "Content-Type: text/plain\n\n";
    let html = "Content-Type: text/html\n\n<p>";
    let calendar = "Content-Type: text/calendar\n\n";
    let alternatives = |parts: &[String]| {
        let mixed = in_parts("alternative", "b");
        format!("{DATE}{mixed}\n--b\n{}\n--b--\n", parts.join("\n--b\n"))
    };
    for (parts, found) in [
        (&[(plain, "hay"), (html, "no"), (calendar, "no")][..], 1),
        (&[(plain, "no"), (html, "hay"), (calendar, "hay")], 0),
        (&[(html, "hay"), (calendar, "no")], 1),
        (&[(calendar, "no"), (html, "hay")], 1),
        (&[(calendar, "hay")], 1),
    ] {
        let parts: Vec<String> = parts
            .iter()
            .map(|(kind, text)| format!("{kind}{text}"))
            .collect();
        assert_eq!(of(alternatives(&parts)).0, found, "{parts:?}");
    }
    let related = in_parts("related", "r");
    let image = "Content-Type: image/png\n\nhay";
    let style = "Content-Type: text/css\n\nhay";
    let page = format!("{related}\n--r\n{html}hay\n--r\n{image}\n--r\n{style}\n--r--\n");
    assert_eq!(of(format!("{DATE}{page}")), (1, 0));
    assert_eq!(of(alternatives(&[format!("{plain}no"), page])), (0, 0));
    // A message inside a message is an attachment.
    let digest = in_parts("digest", "b");
    let other = format!("Subject: hay\n{plain}hay");
    let digest = format!(
        "{DATE}{digest}\n--b\n\n{other}\n--b\nContent-Type: message/rfc822\n\n{other}\n--b--\n"
    );
    assert_eq!(of(digest), (0, 0));
}

#[test]
fn parts_of_a_message_end_with_the_part_around_them() {
    let mut world = World::new();
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let executor = world.real();
    let (outer, inner) = (in_parts("mixed", "hay"), in_parts("alternative", "in"));
    let attached = "Content-Disposition: attachment\nContent-Type: text/plain\n\nhay\n";
    let text = "Content-Type: text/plain\n\n";
    for (nth, (message, found)) in [
        // Delimiters don't belong to the text, whether they are closed or not.
        (format!("{outer}\n--hay\n{text}none"), 0),
        (format!("{outer}\n--hay\n{inner}\n--in\n{text}none\n"), 0),
        (
            format!("{outer}\n--hay\n{inner}\n--in\n{text}none\n--hay--\n"),
            0,
        ),
        // Attachments don't belong to the text, whether the inner part is closed or not.
        (
            format!("{outer}\n--hay\n{inner}\n--in\n{text}none\n--hay\n{attached}--hay--\n"),
            0,
        ),
        (
            format!("{outer}\n--hay\n{inner}\n--in\n{text}none\n--in--\n--hay\n{attached}"),
            0,
        ),
        (
            format!("{outer}\n--hay\n{inner}\n--in\n{text}hay\n--hay\n{text}none"),
            1,
        ),
        (
            format!("{outer}\n--hay\n{inner}\n--in\n{text}none\n--hay\n{text}hay"),
            1,
        ),
        // The preamble, the epilogue and the text between parts don't belong to the text either.
        (
            format!("{outer}\nhay\n--hay\n{text}none\n--hay--\nhay\n"),
            0,
        ),
        (format!("{outer}\nhay\n"), 0),
        // Delimiters are whole lines.
        (
            format!("{outer}\n--hay\n{text}none --hay-- none, 5 --\nhay\n"),
            1,
        ),
        (format!("X: --hay--\n{outer}\n--hay\n{text}hay\n"), 1),
        (
            format!("{inner}\n--in\n{text}none\n--inner--\n--in-- no\n --in--\nhay\n"),
            1,
        ),
        (
            format!("{inner}\n--in \t\r\n{text}none\r\n--in-- \r\nhay\n"),
            0,
        ),
        (format!("X: {inner}\n--in\n{text}hay"), 1),
        (
            format!("Content-Type: multipart/mixed; boundary=\"in \"\n\n--in \n{text}hay\n--in --\n--in--\nhay"),
            1,
        ),
        // Parts without headers are text.
        (format!("{outer}\n--hay\n\nhay\n--hay--\n"), 1),
    ]
    .into_iter()
    .enumerate()
    {
        let message = format!("{DATE}{message}");
        assert_eq!(
            alone(&world, &executor, nth, &message),
            (found, 0),
            "{message}"
        );
    }
    // No real message is nested this deep.
    let deep = |depth: usize| {
        let starts: String = (0..depth)
            .map(|n| format!("{}\n--d{n}-\n", in_parts("mixed", &format!("d{n}-"))))
            .collect();
        format!("{DATE}{starts}{text}hay")
    };
    assert_eq!(alone(&world, &executor, 100, &deep(90)), (1, 0));
    assert_eq!(alone(&world, &executor, 101, &deep(10_000)), (0, 1));
}

#[test]
fn groups_of_addresses_and_every_subject_are_searched() {
    let mut world = World::new();
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let executor = world.real();
    let mut nth = 0;
    let mut shown = |headers: &str, query: &str| {
        nth += 1;
        world.write("m.mbox", format!("From x\n{DATE}{headers}\n\nnone\n"));
        let task = format!("t{nth}");
        let found = ok(&world.run(&executor, &task, "SEARCH_EMAILS", "mail", query));
        let found = results(&found);
        let found: Vec<String> = found.iter().map(|(_, a, b)| format!("{a} {b}")).collect();
        found.join("|")
    };
    for (headers, query, expected) in [
        (
            "To: Team needle: A <a@b>, c@d;",
            "needle",
            "to Team needle: A <a@b>, c@d;",
        ),
        (
            "To: x@y, Team: a@b;, z@y",
            "Team",
            "to x@y, Team: a@b;, z@y",
        ),
        ("From: Team: a@b;\nFrom: c@d", "c@d", "from Team: a@b;, c@d"),
        (
            "To: undisclosed-recipients:;",
            "recipients",
            "to undisclosed-recipients: ;",
        ),
        (
            "Subject: one needle\nSubject: two",
            "needle",
            "subject one needle\\ntwo",
        ),
        (
            "Subject: one\nX: y\nSubject: two needle",
            "needle",
            "subject one\\ntwo needle",
        ),
    ] {
        assert_eq!(shown(headers, query), expected, "{headers}");
    }
}

#[test]
fn mail_texts_are_found_wherever_and_however_the_headers_end() {
    let mut world = World::new();
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let executor = world.real();
    let html = |body: &str| format!("{DATE}Content-Type: text/html\n\n{body}");
    let mixed = in_parts("mixed", "b");
    for (nth, (message, count)) in [
        // The message ends in its headers.
        (format!("{DATE}Subject: hay"), 1),
        (format!("{DATE}Subject: a\n hay"), 1),
        (format!("{DATE}To: a@b, hay@x"), 1),
        // No empty line separates the text from the headers.
        (format!("{DATE}X: y\nthe hay\n\nhay\n"), 1),
        (format!("{DATE}{mixed}\n--b\nfirst hay\nsecond\n\nthird\n--b--\n"), 1),
        (format!("{DATE}{mixed}\n--b\nContent-Type: text/html\n<p>h<b>ay</b>\n--b--\n"), 1),
        // A comment after an encoding, and values that are no media type.
        (format!("{DATE}Content-Transfer-Encoding: quoted-printable (x)\n\nh=61y\n"), 1),
        (format!("{DATE}Content-Type: text/plain; charset=utf-16be\nContent-Transfer-Encoding: base64;\n\nAGgAYQB5\n"), 1),
        (format!("{DATE}Content-Type: foo bar\n\nhay\n"), 1),
        (format!("{DATE}Content-Type: foo/bar\n\nhay\n"), 0),
        // Only the text that HTML shows is searched.
        (html("<p><b>h</b>ay<style type=a>hay</style>"), 1),
        (html("<!---->hay"), 1),
        (html("<p title=hay>h ay"), 0),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(alone(&world, &executor, nth, message), (*count, 0), "{message}");
    }
}

#[test]
fn messages_that_would_take_minutes_are_skipped() {
    let mut world = World::new();
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let executor = world.real();
    let began = std::time::Instant::now();
    for (nth, headers) in [
        format!("Subject: {}", "=?aa?q?x ".repeat(60_000)),
        format!("From: {}", "=?aa?q?x\n ".repeat(60_000)),
        format!("Content-Type: text/plain{}", "; aN*1=b".repeat(200_000)),
        "To:\n".repeat(600_000),
        format!("To: {}", "g:a,".repeat(600_000)),
    ]
    .iter()
    .enumerate()
    {
        let message = format!("{DATE}{headers}\nX: y\n\nhay\n");
        assert_eq!(alone(&world, &executor, nth, &message), (0, 1), "{nth}");
    }
    // Many levels around a long text. The text is read only once.
    let levels = 90;
    let mut message = DATE.to_string();
    for level in 0..levels {
        message += &in_parts("alternative", &format!("b{level}x"));
        message += &format!("\n--b{level}x\n");
    }
    message += "Content-Type: text/plain\n\nhay\n";
    message += &"much text\n".repeat(400_000);
    assert_eq!(alone(&world, &executor, 10, &message), (1, 0));
    assert!(began.elapsed() < GUARD, "{:?}", began.elapsed());
}

/// Returns the test messages in the sources of the parser.
fn public_messages() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut todo = vec![dependency("mail-parser").join("resources/eml")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => todo.push(path),
                false if path.extension().is_some_and(|ending| ending == "eml") => {
                    messages.push(fs::read(path).unwrap());
                }
                false => {}
            }
        }
    }
    messages
}

/// Checks that a search for the subject that the parser reports finds the message. Tries one in
/// seven messages.
fn check_subjects(world: &World, executor: &Executor, messages: &[Vec<u8>]) {
    let parser = mail_parser::MessageParser::default();
    let mut subjects = 0;
    for (nth, message) in messages.iter().enumerate().step_by(7) {
        let Some(parsed) = parser.parse(message) else {
            continue;
        };
        let (Some(subject), Some(date)) = (parsed.subject(), parsed.date()) else {
            continue;
        };
        let subject = subject.trim();
        if subject.is_empty() || !date.is_valid() {
            continue;
        }
        subjects += 1;
        let value = ok(&world.run(
            executor,
            &format!("s{nth}"),
            "SEARCH_EMAILS",
            "mail",
            subject,
        ));
        assert!(value["count"].as_u64().unwrap() >= 1, "{subject:?}");
    }
    assert!(subjects > 5, "{subjects}");
}

/// Returns the searched text of a message.
fn searched_body(message: &[u8]) -> String {
    let mut body = String::new();
    let mailbox = [b"From x\nDate: 3 Jan 2026 01:05 GMT\n", message].concat();
    let passed_over = scan_mbox(&mailbox[..], &mut |record| {
        let fields = record.fields.iter();
        body.extend(
            fields
                .filter(|(name, _)| *name == "body")
                .map(|(_, text)| text),
        );
    });
    assert_eq!(passed_over, Ok(0));
    body
}

/// Checks that the searched texts include the texts that the parser finds. Messages that the
/// mailbox format would split are left out.
fn check_texts(messages: &[Vec<u8>]) {
    let parser = mail_parser::MessageParser::default();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut missing = 0;
    let mut texts = 0;
    for message in messages {
        if message.starts_with(b"From ") || memchr::memmem::find(message, b"\nFrom ").is_some() {
            continue;
        }
        let Some(parsed) = parser.parse(message) else {
            continue;
        };
        let body = words(&searched_body(message));
        for nth in 0..parsed.text_body.len() {
            let text = words(&parsed.body_text(nth).unwrap_or_default());
            texts += 1;
            if !body.contains(&text) {
                missing += 1;
                println!(
                    "{text:.300?}\n    is not in\n{body:.300?}\n    of\n{:.900}\n",
                    String::from_utf8_lossy(message)
                );
            }
        }
    }
    println!("{missing} of {texts} texts are missing");
    // One message is malformed on purpose: the delimiter of an inner part also closes the outer
    // part.
    assert!(texts > 100 && missing <= 1, "{missing} of {texts}");
}

#[test]
fn the_public_test_messages_of_the_parser_are_read_to_the_last() {
    let mut world = World::new();
    let messages = public_messages();
    assert!(messages.len() > 100, "{}", messages.len());
    fs::create_dir_all(world.path("mail/new")).unwrap();
    for (nth, message) in messages.iter().enumerate() {
        world.write(&format!("mail/cur/{nth}.host:2,S"), message);
    }
    world.scope("mail", ScopeKind::Maildir, "mail");
    let executor = world.real();
    let execution = world.run(&executor, "t", "SEARCH_EMAILS", "mail", "e");
    let value = ok(&execution);
    let found = value["count"].as_u64().unwrap();
    assert!(found > 100, "{found}");
    println!(
        "{} messages: {found} fields, {} without a valid time",
        messages.len(),
        execution.passed_over
    );
    assert!(execution.passed_over < messages.len() as u64);
    check_subjects(&world, &executor, &messages);
    check_texts(&messages);
}

#[test]
fn a_maildir_of_a_mail_tool_is_read() {
    let Some(procmail) = std::env::var_os("FORGE_SEARCH_TEST_PROCMAIL") else {
        return crate::skipped::skipped("FORGE_SEARCH_TEST_PROCMAIL names no procmail");
    };
    let mut world = World::new();
    let maildir = world.path("Mail/inbox");
    let rc = world.write(
        "rc",
        format!(
            "MAILDIR={}\nDEFAULT={}/\nLOGFILE={}\nLOCKFILE=\n",
            world.dir.path().display(),
            maildir.display(),
            world.path("log").display()
        ),
    );
    fs::create_dir_all(maildir.parent().unwrap()).unwrap();
    for message in MESSAGES {
        use std::io::Write;
        let mut child = std::process::Command::new(&procmail)
            .arg("-m")
            .arg(&rc)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(message.as_bytes())
            .unwrap();
        assert!(
            child.wait().unwrap().success(),
            "{:?}",
            fs::read_to_string(world.path("log"))
        );
    }
    assert_eq!(
        fs::read_dir(maildir.join("new")).unwrap().count(),
        MESSAGES.len()
    );
    world.scope("mail", ScopeKind::Maildir, "Mail/inbox");
    check(
        &world.run(&world.real(), "t", "SEARCH_EMAILS", "mail", "needle"),
        false,
    );
}
