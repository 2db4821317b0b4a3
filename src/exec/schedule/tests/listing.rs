//! A list has the same files, limits and counts as a search in which each file matches.

use super::*;
use crate::exec::engine::Engine;
use crate::exec::engine::list::ListEngine;
use crate::exec::question::query::{Query, QueryOptions};

fn list_engine() -> Arc<dyn Prepared> {
    let query = Query::new(&[""], &QueryOptions::default()).unwrap();
    ListEngine::default().prepare(Arc::new(query)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_list_is_a_search_in_which_each_file_matches(
        nodes in nodes(),
        max_results in 1usize..40,
        max_files in 1u64..60,
        threads in 1usize..5,
    ) {
        let mut options = options(max_results, max_files, threads);
        options.limits.report = Report::Presence;
        let (tree, _tmp) = Tree::new(nodes.clone());
        let searched = run(tree, Arc::new(Fake::new(|_, _| Ok(FileOutcome::listed()))), &options);
        let (tree, _tmp) = Tree::new(nodes);
        let listed = run(tree, list_engine(), &options);
        prop_assert_eq!(listed.unwrap(), searched.unwrap());
    }
}

#[test]
fn skipped_files_are_counted_before_the_listed_ones() {
    let (tree, _tmp) = Tree::new(vec![Node::Files(3)]);
    let Some(Item::File(file)) = tree.start().pop() else {
        panic!("no file");
    };
    let after = |passed_before: u64, target: usize| EligibleFile {
        passed_before,
        target,
        ..file.clone()
    };
    let items: Vec<Item<()>> = [after(0, 0), after(0, 0), after(2, 0), after(0, 1)]
        .map(Item::File)
        .into();
    let shown = listed(items).into_iter().map(|item| match item {
        Item::Listed(files) => (files.target, files.len() as u64),
        Item::Passed(count) => (usize::MAX, count),
        other => panic!("{other:?}"),
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown, [(0, 2), (usize::MAX, 2), (0, 1), (1, 1)]);
}
