//! Low-priority threads.
//!
//! On Linux each thread has its own nice value. Unless an I/O class is set for a thread, the kernel
//! derives one from the nice value for each request: best effort, with a lower priority for a
//! higher nice value (`ioprio_set(2)`). So one call lowers both priorities. The call that sets only
//! the I/O class, which has no maintained safe wrapper, is not needed. On other systems the nice
//! value belongs to the whole process, searches included, so no priority is lowered there.

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// The nice value of background threads. If such a thread competes with one of nice value 0, it
/// gets about a tenth of the processor.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NICE: i32 = 10;

/// Creates a thread pool for background work, with a lower processor and I/O priority than the
/// process's other threads. If the system does not allow that, the threads have the normal
/// priority.
///
/// # Errors
///
/// [`ThreadPoolBuildError`] if the system can't start the threads.
pub fn background_pool(threads: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .thread_name(|number| format!("forge-index-{number}"))
        .start_handler(|_| lower_thread_priority())
        .build()
}

/// Lowers the priority of the calling thread, and of threads that it starts later. This can't be
/// undone.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn lower_thread_priority() {
    // If the process was started with a higher nice value, keep it.
    let now = rustix::process::getpriority_process(None).unwrap_or(0);
    if now < NICE {
        let _unless_forbidden = rustix::process::setpriority_process(None, NICE);
    }
}

/// Does nothing, because a priority belongs to the whole process here.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn lower_thread_priority() {}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the nice value of a thread, as reported by the kernel.
    fn nice_of(tid: i32) -> i32 {
        let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
        // The second field, the thread's name, may contain any characters; the nice value is field
        // 19.
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.split(' ').nth(16).unwrap().parse().unwrap()
    }

    fn tid() -> i32 {
        rustix::thread::gettid().as_raw_nonzero().get()
    }

    #[test]
    fn only_threads_of_the_pool_have_a_lower_priority() {
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
