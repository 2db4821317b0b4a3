//! A person's search on systems without daemons: this process answers everything.

use super::PersonSearch;
use crate::exec::answer::handed_out::HandedOut;
use crate::exec::schedule::Taker;
use crate::tool::answering::Summary;
use crate::tool::cli::setup::Setup;

impl PersonSearch<'_> {
    /// Returns `None`: no daemon can be asked.
    pub(super) fn by_daemon(
        &self,
        _handed_out: &mut HandedOut,
        _taker: &mut Taker<'_>,
    ) -> Option<Summary> {
        // Only a daemon needs the configuration before the setup reads it.
        let _ = (self.config, self.of_daemon);
        None
    }

    /// Does nothing, since there are no daemons.
    pub(super) fn start_daemon(&self, _setup: &Setup, _files: u64) {}
}
