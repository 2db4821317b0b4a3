//! The places of stored indexes: the information that they reveal, and the fallback if a place is
//! not usable.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_search::internal::exec::stop::CancelHandle;
use forge_search::internal::format::disk::{Disk, DiskFile, RealDisk};
use forge_search::internal::format::storage::Privacy;
use forge_search::internal::index::snapshot::StorageMode;
use forge_search::internal::index::state::{DisabledReason, IndexState};
use forge_search::internal::index::store::Store;
use forge_search::internal::tool::config::{IndexMode, IndexStorage};
use forge_search::internal::tool::indexing::{CachePlaces, Condition, Foreground, Indexes};
use serde_json::json;

use super::{World, listing, needle};
use crate::support::Tree;
use crate::system::{set_mode, symlink};

#[test]
fn the_configured_index_path_comes_first_then_the_user_cache_then_a_temporary_directory() {
    let world = World::new();
    let mut config = world.setup.config.clone();
    let places = CachePlaces {
        user_cache: Some(PathBuf::from("/home/u/.cache")),
        temporary: Some(PathBuf::from("/tmp/forge-search-7")),
        ..CachePlaces::default()
    };
    let root = |places: &CachePlaces, config: &_| places.cache_root(config, Path::new("/src"));
    assert_eq!(root(&places, &config), Some(world.cache.clone()));
    config.index_path = Some(PathBuf::from("../mine"));
    assert_eq!(root(&places, &config), Some(PathBuf::from("/src/../mine")));
    for empty in [None, Some(PathBuf::new())] {
        config.index_path = empty;
        let user = Path::new("/home/u/.cache/forge/search-index");
        assert_eq!(root(&places, &config).as_deref(), Some(user));
    }
    let places = CachePlaces {
        user_cache: None,
        ..places
    };
    assert_eq!(root(&places, &config), places.temporary);
    assert_eq!(root(&CachePlaces::default(), &config), None);
}

#[test]
fn indexes_are_in_the_user_cache_outside_of_the_tree_by_default() {
    let mut world = World::new();
    world.setup.config.index_path = None;
    let home = tempfile::tempdir().unwrap();
    let places = CachePlaces {
        user_cache: Some(home.path().join(".cache")),
        temporary: None,
        ..CachePlaces::default()
    };
    let context = world.setup.context();
    let indexes = |config: &_| {
        Indexes::new(
            config,
            &world.setup.engines,
            &context.sandbox,
            None,
            &places,
        )
        .unwrap()
    };
    let store = indexes(&world.setup.config)
        .store()
        .unwrap()
        .root()
        .to_path_buf();
    let home = home.path().canonicalize().unwrap();
    assert_eq!(store, home.join(".cache/forge/search-index"));
    assert!(!store.starts_with(world.tree.root()));
    // If the user's cache is inside the tree, the default place is not used.
    let mut setup = world.setup.clone();
    setup.working_dir = home;
    let context = setup.context();
    let indexes = Indexes::new(
        &setup.config,
        &setup.engines,
        &context.sandbox,
        None,
        &places,
    )
    .unwrap();
    assert!(indexes.store().is_none());
    assert_eq!(indexes.fallback().unwrap().code, "INSIDE_TREE");
}

/// Checks that indexes are not stored at `path`, for the reason `code`, but work in memory.
#[track_caller]
fn check_fallback(world: &World, path: &Path, code: &str) -> String {
    let mut setup = world.setup.clone();
    setup.config.index_path = Some(path.to_path_buf());
    let world = World {
        tree: Tree::of(super::FILES),
        setup: setup.clone(),
        cache: path.to_path_buf(),
    };
    let (tool, context) = setup.indexing_tool();
    let opened = super::Opened { tool, context };
    let indexes = opened.indexes();
    assert!(indexes.store().is_none());
    assert_eq!(indexes.storage(), StorageMode::Memory);
    let fallback = indexes.fallback().unwrap().clone();
    assert_eq!(fallback.code, code, "{fallback:?}");
    assert!(
        fallback.message.contains("index_path"),
        "no remedy: {fallback:?}"
    );
    assert_eq!(indexes.unkept().as_ref(), Some(&fallback.message));
    // The answers are right and the reason is given, before a build in memory and after it.
    let request = json!({"pattern": "needle"});
    let plain = {
        let mut setup = setup.clone();
        setup.config.index_mode = IndexMode::Off;
        setup.config.emit_stats = false;
        setup.search(request.clone()).to_json()
    };
    for used in [false, true] {
        let mut response = opened.search(&request);
        let stats = response.stats.take().unwrap();
        assert_eq!(response.to_json(), plain);
        assert_eq!(stats.storage_mode, "memory");
        assert_eq!(stats.storage_fallback_reason.as_deref(), Some(code));
        assert_eq!(stats.index_exclusion_used, used, "{stats:?}");
        opened.build();
    }
    drop(world);
    fallback.message
}

#[test]
fn no_index_is_stored_inside_of_an_indexed_tree() {
    let world = World::new();
    let before = listing(world.tree.root());
    let inside = world.tree.root().join("cache/of/indexes");
    check_fallback(&world, &inside, "INSIDE_TREE");
    check_fallback(&world, world.tree.root(), "INSIDE_TREE");
    assert_eq!(listing(world.tree.root()), before, "nothing is made there");
    // A link that leads into the tree is refused too.
    let link = world.cache.with_file_name("link");
    symlink(world.tree.root().join("a"), &link).unwrap();
    check_fallback(&world, &link, "INSIDE_TREE");
    check_fallback(&world, &link.join("deeper"), "INSIDE_TREE");
    assert_eq!(listing(world.tree.root()), before);
}

#[test]
fn no_index_is_stored_under_a_denied_path() {
    let mut world = World::new();
    world.setup.sandbox.denied_patterns = vec!["**/cache/**".to_string()];
    let message = check_fallback(&world, &world.cache.join("indexes"), "DENIED");
    assert!(message.contains("**/cache/**"), "{message}");
    assert!(!world.cache.exists());
}

#[test]
fn a_path_that_can_not_become_an_index_directory_is_refused() {
    let world = World::new();
    let file = world.cache.with_file_name("file");
    fs::write(&file, "").unwrap();
    check_fallback(&world, &file, "PERMISSION_DENIED");
    check_fallback(&world, &file.join("below"), "PERMISSION_DENIED");
}

#[test]
fn an_index_that_can_not_be_stored_stays_in_memory_for_the_session() {
    let world = World::new();
    fs::create_dir(&world.cache).unwrap();
    set_mode(&world.cache, 0o777).unwrap();
    let message = check_fallback(&world, &world.cache, "PERMISSION_DENIED");
    assert!(message.contains("chmod 700"), "{message}");
    assert_eq!(listing(&world.cache).len(), 0);
    // Each session builds its own index.
    let condition = world.open().condition(world.tree.root());
    assert_eq!(condition.index_state(), IndexState::Absent);
    assert!(matches!(condition, Condition::Unkept(_)), "{condition:?}");
    // Memory that was configured is not a fallback.
    let world = world.config(|config| config.index_storage = IndexStorage::Memory);
    let opened = world.built();
    let stats = world.check_used(&opened, &needle());
    assert_eq!(stats.storage_mode, "memory");
    assert_eq!(stats.storage_fallback_reason, None);
    assert!(opened.indexes().unkept().unwrap().contains("index_storage"));
}

#[test]
fn an_index_directory_that_turns_out_unusable_means_an_index_in_memory() {
    // For root, permissions allow new directories here, but creating one fails.
    let place = Path::new("/proc/forge-search-test/indexes");
    let world = World::new().config(|config| config.index_path = Some(place.to_path_buf()));
    let opened = world.open();
    world.check_unused(&opened, &needle());
    opened.build();
    let stats = world.check_used(&opened, &needle());
    assert_eq!(stats.storage_mode, "memory");
    let reason = stats.storage_fallback_reason.as_deref();
    assert_eq!(reason, Some("PERMISSION_DENIED"));
    assert!(opened.indexes().store().is_none());
    let why = opened.indexes().unkept().unwrap();
    assert!(why.contains("index_path"), "{why}");
    assert_eq!(opened.ensure(), [false]);
}

#[test]
fn indexing_is_disabled_without_any_place_for_indexes() {
    let mut world = World::new();
    world.setup.config.index_path = None;
    let opened = world.open();
    let condition = opened.condition(world.tree.root());
    let reason = DisabledReason::PersistenceNotPermitted;
    assert_eq!(condition.index_state(), IndexState::Disabled(Some(reason)));
    assert!(condition.why().unwrap().contains("index_path"));
    let stats = world.check_unused(&opened, &needle());
    assert_eq!(stats.index_safety_state, "DISABLED");
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("PERSISTENCE_NOT_PERMITTED")
    );
    assert_eq!(stats.storage_mode, "none");
    let host = Foreground::new(CancelHandle::new());
    let refused = opened
        .indexes()
        .build(world.tree.root(), opened.context.sandbox.reach(), &host);
    assert!(refused.unwrap_err().to_string().contains("index_path"));
}

#[test]
fn unfinished_files_are_in_the_cache_and_never_in_the_tree() {
    let world = World::new();
    let before = listing(world.tree.root());
    let seen = Mutex::new(Vec::new());
    let host = Foreground::new(CancelHandle::new()).with_progress(|_| {
        assert_eq!(listing(world.tree.root()), before);
        let unfinished = listing(&world.cache).into_keys().filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(".segment-") && name.ends_with(".tmp")
        });
        seen.lock().unwrap().push(unfinished.count());
    });
    let opened = world.open();
    let sandbox = &opened.context.sandbox;
    opened
        .indexes()
        .build(world.tree.root(), sandbox.reach(), &host)
        .unwrap();
    world.check_used(&opened, &needle());
    assert_eq!(listing(world.tree.root()), before);
    assert!(seen.lock().unwrap().contains(&1), "{seen:?}");
    let left = listing(&world.cache);
    let tmp = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "tmp");
    assert_eq!(left.keys().find(tmp), None);
}

#[test]
fn the_sandbox_does_not_apply_to_the_index_directory() {
    let world = World::new();
    assert!(!world.setup.sandbox.allow_absolute);
    assert!(world.cache.is_absolute());
    let opened = world.built();
    world.check_used(&opened, &needle());
    // The cache itself can't be searched.
    let request = json!({"pattern": "needle", "path": world.cache});
    let error = opened.tool.call(request, &opened.context).unwrap_err();
    assert_eq!(error.code(), "path_outside_sandbox");
}

#[cfg(unix)]
#[test]
fn only_the_user_can_access_a_stored_index() {
    use std::os::unix::fs::PermissionsExt;

    let world = World::new();
    world.built();
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&world.cache), 0o700);
    let all = listing(&world.cache);
    assert!(all.len() >= 4, "{all:?}");
    for path in all.keys() {
        let name = path.file_name().unwrap().to_string_lossy();
        let expected = match path.is_dir() {
            true => 0o700,
            false if name == "manifest" || name.ends_with(".seg") => 0o400,
            false => 0o600,
        };
        assert_eq!(mode(path), expected, "{}", path.display());
    }
}

#[test]
fn no_index_is_stored_without_private_permissions_unless_that_is_allowed() {
    for mode in [0o755, 0o770, 0o777] {
        let world = World::new();
        fs::create_dir(&world.cache).unwrap();
        set_mode(&world.cache, mode).unwrap();
        check_fallback(&world, &world.cache, "PERMISSION_DENIED");
        assert_eq!(listing(&world.cache).len(), 0);
        assert_eq!(world.open().indexes().exposed(), None);
        let world = world.config(|config| config.index_allow_insecure_persistence = true);
        let opened = world.built();
        assert_eq!(opened.indexes().fallback(), None);
        let stats = world.check_used(&world.open(), &needle());
        assert_eq!(stats.storage_fallback_reason, None);
        assert_eq!(world.kept().len(), 1);
        // As long as other users have access, the program warns about it.
        let exposed = opened.indexes().exposed().unwrap();
        assert!(exposed.contains("other users have access"), "{exposed}");
        assert!(
            exposed.contains("index_allow_insecure_persistence"),
            "{exposed}"
        );
        set_mode(&world.cache, 0o700).unwrap();
        assert_eq!(opened.indexes().exposed(), None);
    }
}

/// A disk that gives every file the same permissions, like the filesystem of a memory card.
#[derive(Debug)]
struct WithoutRights;

impl Disk for WithoutRights {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.make_dir(dir)?;
        set_mode(dir, 0o777)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.remove_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        RealDisk.open(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        RealDisk.open_lock(path, exclusive)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let created = RealDisk.create_new(path)?;
        set_mode(path, 0o666)?;
        Ok(created)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        RealDisk.names(dir)
    }
}

#[test]
fn no_index_is_stored_on_a_filesystem_without_permissions_unless_that_is_allowed() {
    for privacy in [Privacy::Required, Privacy::Waived] {
        let world = World::new();
        let place = world.cache.join("card");
        let store = Store::open(place.clone(), privacy, Duration::ZERO).unwrap();
        let store = store.on(Arc::new(WithoutRights));
        let made = store.make_root();
        assert_eq!(made.is_ok(), privacy == Privacy::Waived, "{made:?}");
        assert_eq!(store.exposure().is_some(), privacy == Privacy::Waived);
        assert_eq!(listing(&place).len(), 0);
    }
}

#[test]
fn an_index_contains_no_text_of_any_file() {
    let world = World::new();
    let texts = [
        "zweihundertsiebzig",
        "Wortungeheuer",
        "déjà-vu-vécu",
        "q8Zk2Lw0",
    ];
    for (n, text) in texts.iter().enumerate() {
        world.tree.file(&format!("{n}.txt"), format!("{text}\n"));
    }
    let opened = world.built();
    for text in texts {
        world.check_used(&opened, &json!({"pattern": text, "fixed_strings": true}));
    }
    for path in listing(&world.cache)
        .into_keys()
        .filter(|path| path.is_file())
    {
        let bytes = fs::read(&path).unwrap();
        // The index stores names and single n-grams. Anything longer would be text of a file.
        for text in texts {
            let text = text.as_bytes();
            for part in text.windows(5).chain([text]) {
                let found = bytes.windows(part.len()).any(|bytes| bytes == part);
                assert!(
                    !found,
                    "{}: {:?}",
                    path.display(),
                    String::from_utf8_lossy(part)
                );
            }
        }
    }
}

#[test]
fn denied_files_have_no_index_entry() {
    let tree = Tree::of([
        ("src/open.txt", "a needle\n"),
        ("src/other.txt", "straw\n"),
        ("src/key.pem", "a needle, BEGIN PRIVATE\n"),
        (".ssh/config", "a needle\n"),
        ("id_rsa", "a needle\n"),
        ("secret/inner/deep.txt", "a needle\n"),
        ("src/notes.secret", "a needle\n"),
    ]);
    let mut world = World::over(tree);
    world.setup.sandbox.denied_patterns = vec!["secret/**".into(), "**/*.secret".into()];
    world.setup.config.index_default_hidden = true;
    let request = json!({"pattern": "needle", "hidden": true});
    let opened = world.built();
    world.check_used(&opened, &request);
    let status = opened.indexes().status(opened.context.sandbox.reach());
    assert_eq!(status[0].contents.as_ref().unwrap().files, 2);
    // The names of denied files, and of directories with only denied files, occur nowhere but in
    // the patterns.
    let store = opened.indexes().store().unwrap();
    let snapshot = store
        .load(&status[0].key, &mut std::thread::sleep)
        .unwrap()
        .unwrap();
    let segment = snapshot.segment();
    let names: Vec<String> = (0..segment.file_count())
        .map(|rank| {
            let file = segment.file(rank).unwrap();
            let dir = segment.dir_path(file.dir).unwrap();
            let path = dir.join(segment.name(file.name).unwrap());
            path.to_str().unwrap().to_string()
        })
        .collect();
    assert_eq!(names, ["src/open.txt", "src/other.txt"]);
    let bytes = segment.storage().as_bytes();
    for denied in ["key.pem", "id_rsa", "deep.txt", "inner", "notes.secret"] {
        let found = bytes
            .windows(denied.len())
            .any(|part| part == denied.as_bytes());
        assert!(!found, "{denied}");
    }
    // Other denied patterns make another key. The index that was built under the old patterns is
    // not used.
    world.setup.sandbox.denied_patterns = vec!["**/*.secret".into()];
    let opened = world.open();
    let stats = world.check_unused(&opened, &request);
    let reason = stats.index_uncertain_reason.as_deref();
    assert_eq!(
        (stats.index_safety_state.as_str(), reason),
        ("UNCERTAIN", Some("POLICY_CHANGED"))
    );
    world.setup.sandbox.denied_patterns = vec!["secret/**".into(), "**/*.secret".into()];
    world.check_used(&world.open(), &request);
    // The same holds for a sandbox that a later call brings along.
    let mut other = world.setup.clone();
    other.sandbox.denied_patterns = vec!["**/open.txt".into()];
    let opened = world.open();
    let context = other.context();
    let response = opened.tool.call(request, &context).unwrap();
    assert_eq!(response.count, 2, "{}", response.content);
    let stats = response.stats.unwrap();
    assert!(!stats.index_exclusion_used);
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("POLICY_CHANGED")
    );
}
