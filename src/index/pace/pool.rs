//! Threads that stand back.
//!
//! On Linux each thread has a nice value of its own. The I/O class of a thread whose class nobody has set follows from that: best effort, with a
//! lower priority the higher the nice value, which the kernel works out anew for each request (`ioprio_set(2)`). So one call lowers both, and the one
//! that sets an I/O class alone, which has no safe wrapper that is kept up, is not needed. Elsewhere a nice value is the process's as a
//! whole, searches included, and nothing is lowered.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// The nice value of background threads. Against one of value 0 such a thread gets about a tenth of a processor that
/// both want.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NICE: i32 = 10;

/// Makes a pool of threads for background work, with a lower priority for processors and input and output than other
/// threads of the process have. Where the system does not allow that, they have the usual one.
///
/// Serves `FR-LSI-BG-30`.
///
/// # Errors
///
/// [`ThreadPoolBuildError`] if the system gives no more threads.
pub fn background_pool(threads: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .thread_name(|number| format!("forge-index-{number}"))
        .start_handler(|_| stand_back())
        .build()
}

/// Lowers the priority of the calling thread, and of threads that it starts from now on. There is no way back.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn stand_back() {
    // Of a process that is nicer already, as it was started, nothing is to be raised.
    let now = rustix::process::getpriority_process(None).unwrap_or(0);
    if now < NICE {
        let _unless_forbidden = rustix::process::setpriority_process(None, NICE);
    }
}

/// Does nothing: here a priority is the process's as a whole.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn stand_back() {}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::fs;

    use super::*;

    /// The nice value of a thread, as the kernel shows it.
    fn nice_of(tid: i32) -> i32 {
        let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
        // The name of the thread, the second field, may hold anything; the nice value is the 19th.
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.split(' ').nth(16).unwrap().parse().unwrap()
    }

    fn tid() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }

    #[test]
    fn fr_lsi_bg_30_threads_of_the_pool_are_nicer_and_no_others() {
        let own = nice_of(tid());
        let pool = background_pool(3).unwrap();
        assert_eq!(pool.current_num_threads(), 3);
        let all = pool.broadcast(|_| (tid(), nice_of(tid())));
        let mut tids: Vec<i32> = all.iter().map(|(tid, _)| *tid).collect();
        tids.sort_unstable();
        tids.dedup();
        assert_eq!(tids.len(), 3);
        assert!(!tids.contains(&tid()));
        for (_, nice) in all {
            assert_eq!(nice, NICE.max(own));
        }
        assert_eq!(nice_of(tid()), own);
    }

    #[test]
    fn a_pool_of_none_has_a_thread() {
        assert_eq!(background_pool(0).unwrap().current_num_threads(), 1);
    }
}
