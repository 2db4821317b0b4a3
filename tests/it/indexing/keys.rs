//! Index keys: settings that need an index of their own, and options that are filtered at search
//! time.

use forge_search::internal::index::walk::IgnoreRules;
use std::fs;
use std::path::Path;

use forge_search::internal::format::manifest::MANIFEST_VERSION;
use forge_search::internal::format::section::{Container, FileKind, SectionWriter};
use forge_search::internal::format::segment::SEGMENT_VERSION;
use forge_search::internal::format::storage::Storage;
use forge_search::internal::index::key::IMPLEMENTATION_VERSION;
use forge_search::internal::tool::indexing::Condition;
use serde_json::json;

use super::{World, listing, manifest, needle};
use crate::project_files::root;

#[test]
fn filters_of_requests_need_no_index_of_their_own() {
    let world = World::new();
    let opened = world.built();
    for request in [
        json!({"pattern": "needle", "glob": ["*.rs"]}),
        json!({"pattern": "needle", "include_glob": ["/a/**"], "exclude_glob": ["*.txt"]}),
        json!({"pattern": "needle()", "fixed_strings": true}),
        json!({"pattern": "needle", "word_regexp": true}),
        json!({"pattern": "NEEDLE", "case": "sensitive"}),
        json!({"pattern": "NEEDLE", "case": "insensitive"}),
        json!({"pattern": "NEEDLE", "case": "smart"}),
        json!({"pattern": "needle", "path": "a", "recursive": false}),
        json!({"pattern": "needle", "context": 2, "max_results": 1}),
        json!({"pattern": "needle", "max_files": 3}),
    ] {
        let stats = world.check(&opened, &request);
        assert!(stats.index_exclusion_used, "{request}: {stats:?}");
    }
    assert_eq!(world.kept().len(), 1);
}

#[test]
fn another_index_key_makes_another_index() {
    let world = World::new();
    world.check_used(&world.built(), &needle());
    let first = world.kept();
    let world = world.config(|config| config.index_max_tokenized_bytes = 4096);
    let opened = world.open();
    let stats = world.check_unused(&opened, &needle());
    assert_eq!(stats.index_safety_state, "ABSENT");
    // A build under the new key keeps the old index, for processes with the old settings.
    opened.build();
    world.check_used(&opened, &needle());
    assert_eq!(world.kept().len(), 2);
    assert!(world.kept().contains(&first[0]));
    let world = world.config(|config| config.index_max_tokenized_bytes = 1 << 20);
    world.check_used(&world.open(), &needle());
}

#[test]
fn an_index_key_is_compared_component_by_component() {
    let world = World::new();
    let opened = world.built();
    let root = world.tree.root();
    let dir = world.cache.join(&world.kept()[0]);
    let good = manifest(&dir);
    assert_eq!(good.key.root, root.as_os_str().as_encoded_bytes());
    assert_eq!(good.key.unicode_normalization, "NFC");
    assert_eq!(good.key.casefold, "ASCII");
    assert_eq!(good.key.ngram_chars, 3);
    #[cfg(unix)]
    {
        let user = format!("uid={} gid=", rustix::process::geteuid().as_raw());
        assert!(good.key.access.starts_with(&user), "{}", good.key.access);
    }
    // Simulates two keys with the same hash: the name of the directory proves nothing.
    let changes: [fn(&mut forge_search::internal::format::manifest::KeyParts); 7] = [
        |key| key.hidden = true,
        |key| key.casefold = "UNICODE_SIMPLE".to_string(),
        |key| key.unicode_normalization = "NFD".to_string(),
        |key| key.backend_id = "rg@13.0.0".to_string(),
        |key| key.tokenizer_id.push('x'),
        |key| key.access = "uid=7 gid=7 groups= caps=".to_string(),
        |key| key.schema_version += 1,
    ];
    for change in changes {
        let mut other = good.clone();
        change(&mut other.key);
        fs::write(dir.join("manifest"), other.encode().unwrap()).unwrap();
        for opened in [&opened, &world.open()] {
            assert_eq!(opened.condition(root), Condition::Absent, "{:?}", other.key);
            world.check_unused(opened, &needle());
        }
    }
    assert_eq!(world.open().ensure(), [true]);
    world.check_used(&opened, &needle());
    assert_eq!(manifest(&dir).key, good.key);
}

#[test]
fn an_index_with_other_filter_parameters_than_its_manifest_says_is_damaged() {
    let world = World::new();
    let opened = world.built();
    world.check_used(&opened, &needle());
    let dir = world.cache.join(&world.kept()[0]);
    let good = manifest(&dir);
    // The parameters are stored with the index. If parts of the index contradict them, it is
    // damaged.
    let bloom = &good.bloom;
    assert_eq!((bloom.bits, bloom.hashes), (5_025_332, 7));
    assert_eq!(bloom.ngram_chars, 3);
    let changes: [fn(&mut forge_search::internal::format::manifest::Manifest); 4] = [
        |manifest| manifest.bloom.bits -= 1,
        |manifest| manifest.bloom.hashes += 1,
        |manifest| manifest.bloom.ngram_chars = 4,
        |manifest| manifest.bloom.seed ^= 1,
    ];
    for change in changes {
        let mut other = good.clone();
        change(&mut other);
        fs::write(dir.join("manifest"), other.encode().unwrap()).unwrap();
        let stats = world.check_unused(&world.open(), &needle());
        assert_eq!(stats.index_safety_state, "CORRUPT", "{:?}", other.bloom);
    }
    fs::write(dir.join("manifest"), good.encode().unwrap()).unwrap();
    world.check_used(&world.open(), &needle());
    // Other parameters in the configuration belong to another index, with its own key.
    let world = world.config(|config| config.bloom_target_fp_rate = 0.001);
    let opened = world.open();
    let stats = world.check_unused(&opened, &needle());
    assert_eq!(stats.index_safety_state, "ABSENT");
    assert_eq!(opened.ensure(), [true]);
    world.check_used(&opened, &needle());
    let (all, mut hashes) = (world.kept(), Vec::new());
    for dir in &all {
        hashes.push(manifest(&world.cache.join(dir)).bloom.hashes);
    }
    hashes.sort_unstable();
    assert_eq!(hashes, [7, 10]);
}

#[test]
fn each_root_has_one_index_with_the_default_options() {
    let world = World::new();
    let opened = world.built();
    opened.build();
    assert_eq!(world.kept().len(), 1);
    let key = manifest(&world.cache.join(&world.kept()[0])).key;
    assert_eq!(
        (key.hidden, key.follow, key.rules),
        (false, false, IgnoreRules::All)
    );
    world.check_used(&opened, &needle());
}

#[test]
fn the_options_of_the_index_can_be_configured() {
    let world = World::new();
    world.tree.file(".ignore", "b/seven.txt\n");
    let hidden = json!({"pattern": "needle", "hidden": true});
    let no_ignore = json!({"pattern": "needle", "no_ignore": true});
    let world = world.config(|config| config.index_default_hidden = true);
    let opened = world.built();
    assert_eq!(world.check_used(&opened, &hidden).candidates_total, 9);
    world.check_unused(&opened, &needle());
    world.check_unused(&opened, &no_ignore);
    let world = world.config(|config| {
        config.index_default_hidden = false;
        config.index_default_no_ignore = true;
    });
    let opened = world.built();
    assert_eq!(world.check_used(&opened, &no_ignore).candidates_total, 8);
    world.check_unused(&opened, &needle());
    world.check_unused(&opened, &hidden);
    // An index with followed links can be built. But the targets of links are not tracked, so it
    // excludes no file.
    let world = world.config(|config| {
        config.index_default_no_ignore = false;
        config.index_default_follow = true;
    });
    let opened = world.built();
    world.check_unused(&opened, &json!({"pattern": "needle", "follow": true}));
    assert_eq!(world.kept().len(), 3);
}

#[test]
fn requests_with_other_options_do_without_an_index() {
    let world = World::new();
    world.tree.file(".ignore", "a/two.txt\n");
    let opened = world.built();
    let before = listing(&world.cache);
    world.check_used(&opened, &needle());
    for option in ["hidden", "follow", "no_ignore"] {
        let request = json!({"pattern": "needle", option: true});
        let stats = world.check_unused(&opened, &request);
        let reason = opened.explain(&request).reason.unwrap();
        assert!(reason.contains("hidden, follow and no_ignore"), "{reason}");
        // The options need another key, for which there is no index.
        assert_eq!(stats.index_safety_state, "ABSENT", "{option}");
        assert_eq!(stats.index_uncertain_reason, None, "{option}");
        let file = json!({"pattern": "needle", "path": "b/seven.txt", option: true});
        let stats = world.check_unused(&opened, &file);
        assert_eq!(stats.index_safety_state, "ABSENT", "{option}");
    }
    assert_eq!(listing(&world.cache), before, "none was built for them");
}

#[test]
fn requests_for_less_do_without_an_index_too() {
    let world = World::new().config(|config| {
        config.index_default_hidden = true;
        config.index_default_no_ignore = true;
    });
    world.tree.file(".ignore", "a/two.txt\n");
    let opened = world.built();
    let all = json!({"pattern": "needle", "hidden": true, "no_ignore": true});
    assert_eq!(world.check_used(&opened, &all).candidates_total, 10);
    // The ignored and hidden files count for limits and statistics. The index can't tell them apart
    // from other files.
    for less in [
        json!({"pattern": "needle", "hidden": true}),
        json!({"pattern": "needle", "no_ignore": true}),
        needle(),
    ] {
        let stats = world.check_unused(&opened, &less);
        assert!(stats.candidates_total < 10, "{less}: {stats:?}");
    }
}

/// Returns the bytes of an index file as a later program would write it.
pub(crate) fn of_version(kind: FileKind, version: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = SectionWriter::new(&mut bytes, kind, version).unwrap();
    out.section(77, b"what a later program has to say").unwrap();
    out.finish().unwrap();
    bytes
}

/// Checks that searches leave an index with a newer file alone, and that a build replaces it.
#[track_caller]
fn check_newer(name: impl Fn(&Path) -> String, bytes: &[u8]) {
    let world = World::new();
    world.built();
    let dir = world.cache.join(&world.kept()[0]);
    let file = dir.join(name(&dir));
    // Replaces the file as a publication does: the old one may be open.
    fs::remove_file(&file).unwrap();
    fs::write(&file, bytes).unwrap();
    let opened = world.open();
    let condition = opened.condition(world.tree.root());
    let Condition::Unavailable(why) = &condition else {
        panic!("{condition:?}");
    };
    assert!(why.contains("version"), "{why}");
    let stats = world.check_unused(&opened, &needle());
    assert_eq!(stats.index_safety_state, "ABSENT");
    assert_eq!(fs::read(&file).unwrap(), bytes, "it is not ours to change");
    assert_eq!(opened.ensure(), [true]);
    world.check_used(&opened, &needle());
    world.check_used(&world.open(), &needle());
}

#[test]
fn an_index_with_a_newer_manifest_is_not_used_and_is_rebuilt() {
    let newer = of_version(FileKind::Manifest, MANIFEST_VERSION + 1);
    check_newer(|_| "manifest".to_string(), &newer);
}

#[test]
fn an_index_with_a_newer_segment_is_not_used_and_is_rebuilt() {
    let newer = of_version(FileKind::Segment, SEGMENT_VERSION + 1);
    check_newer(|dir| manifest(dir).segment.file.name.clone(), &newer);
}

/// Indexes as the programs of their time wrote them. The README beside them says how.
const WRITTEN_INDEXES: [&str; 1] = ["index-3"];

#[test]
fn an_index_of_each_format_is_read_or_replaced() {
    for name in WRITTEN_INDEXES {
        let world = World::new();
        world.built();
        let dir = world.cache.join(&world.kept()[0]);
        let segment = manifest(&dir).segment.file.name.clone();
        let kept = root().join("tests/data/format").join(name);

        // The bytes of a format stay readable as long as the program accepts its version.
        let bytes = fs::read(kept.join("segment.bin")).unwrap();
        let container = Container::open(Storage::from(bytes), FileKind::Segment, SEGMENT_VERSION);
        let container = container.unwrap();
        container.verify_all().unwrap();
        assert!(container.kind_version() <= SEGMENT_VERSION, "{name}");

        // The index belongs to another tree by now, as after an upgrade on another machine.
        for (from, to) in [
            ("manifest.bin", "manifest"),
            ("segment.bin", segment.as_str()),
        ] {
            let to = dir.join(to);
            fs::remove_file(&to).unwrap();
            fs::copy(kept.join(from), &to).unwrap();
        }
        let opened = world.open();
        // Its key names an older build: a person sees that there is no index for this one.
        let version = manifest(&dir).key.implementation_version;
        assert!(version < IMPLEMENTATION_VERSION, "{name}");
        let why = opened.condition(world.tree.root()).why().unwrap();
        assert!(why.starts_with("there is no index; run"), "{name}: {why}");
        world.check_unused(&opened, &needle());
        assert_eq!(opened.ensure(), [true], "{name}");
        world.check_used(&world.open(), &needle());
    }
}
