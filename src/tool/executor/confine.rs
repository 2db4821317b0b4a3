//! Confinement: a worker gives up writing, the network and other programs before it reads any data.
//!
//! It uses two mechanisms of Linux where they exist. Landlock restricts file access to reading the
//! data of the scope. A seccomp filter refuses system calls that open for writing, change names,
//! communicate or start programs. Both can't be undone.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The confinement of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Only the data of the scope can be opened; `partly` if the kernel supports a part of the
    /// rules.
    pub landlock: ConfinementLevel,
    /// System calls that write, connect or start programs are refused.
    pub seccomp: ConfinementLevel,
}

impl Confinement {
    /// Names the mechanisms that the system lacks; `None` if it has both.
    pub fn lacks(&self) -> Option<&'static str> {
        match (self.landlock, self.seccomp) {
            (ConfinementLevel::Not, ConfinementLevel::Not) => Some("Landlock and seccomp"),
            (ConfinementLevel::Not, _) => Some("Landlock"),
            (_, ConfinementLevel::Not) => Some("seccomp"),
            _ => None,
        }
    }
}

/// The state of a mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfinementLevel {
    /// The system does not have it.
    #[default]
    Not,
    /// The system has a part of it.
    Partly,
    /// It is in force.
    Wholly,
}

/// Gives up everything but reading `paths`. Paths that do not exist are skipped.
pub fn confine(paths: &[PathBuf]) -> Confinement {
    #[cfg(target_os = "linux")]
    {
        Confinement {
            landlock: linux::landlock(paths).unwrap_or_default(),
            seccomp: linux::seccomp().map_or(ConfinementLevel::Not, |()| ConfinementLevel::Wholly),
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = paths;
        Confinement::default()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
        RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };

    use super::ConfinementLevel;

    /// The newest Landlock version in use; older systems support less of it.
    const WANTED: ABI = ABI::V5;

    pub(super) fn landlock(paths: &[PathBuf]) -> Result<ConfinementLevel, RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(WANTED))?
            .handle_access(AccessNet::from_all(WANTED))?
            .create()?;
        for path in paths {
            let Ok(open) = PathFd::new(path) else {
                continue;
            };
            let read = match path.is_dir() {
                true => AccessFs::ReadFile | AccessFs::ReadDir,
                false => AccessFs::ReadFile.into(),
            };
            rules = rules.add_rule(PathBeneath::new(open, read))?;
        }
        Ok(match rules.restrict_self()?.ruleset {
            RulesetStatus::FullyEnforced => ConfinementLevel::Wholly,
            RulesetStatus::PartiallyEnforced => ConfinementLevel::Partly,
            RulesetStatus::NotEnforced => ConfinementLevel::Not,
        })
    }

    /// System calls that a search never needs with any arguments.
    const REFUSED: &[libc::c_long] = &[
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_getfd,
        libc::SYS_fchmodat2,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        libc::SYS_fallocate,
        libc::SYS_open_by_handle_at,
        libc::SYS_memfd_create,
        libc::SYS_shmget,
        libc::SYS_mq_open,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_mount_setattr,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_mkdirat,
        libc::SYS_mknodat,
        libc::SYS_unlinkat,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_truncate,
        libc::SYS_ftruncate,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_mq_unlink,
        libc::SYS_ioctl,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_reboot,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_acct,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_syslog,
        libc::SYS_copy_file_range,
        libc::SYS_fanotify_init,
        libc::SYS_landlock_create_ruleset,
        // Newer than `libc`'s constants. Since 424 the numbers are the same on all architectures.
        SETXATTRAT,
        REMOVEXATTRAT,
        FILE_SETATTR,
        OPEN_TREE_ATTR,
    ];

    const SETXATTRAT: libc::c_long = 463;
    const REMOVEXATTRAT: libc::c_long = 466;
    const OPEN_TREE_ATTR: libc::c_long = 467;
    const FILE_SETATTR: libc::c_long = 469;

    /// Older forms of these calls, where an architecture has them.
    #[cfg(target_arch = "x86_64")]
    const OLDER: &[libc::c_long] = &[
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_creat,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_mknod,
        libc::SYS_unlink,
        libc::SYS_rename,
        libc::SYS_link,
        libc::SYS_symlink,
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLDER: &[libc::c_long] = &[];

    pub(super) fn seccomp() -> Result<(), Box<dyn std::error::Error>> {
        let refused = REFUSED.iter().chain(OLDER);
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            refused.map(|call| (*call, Vec::new())).collect();
        rules.insert(libc::SYS_openat, opens_to_change(2)?);
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_open, opens_to_change(1)?);
        // A process may change its own limits. It ends by a signal to itself.
        let itself = u64::from(std::process::id());
        rules.insert(libc::SYS_prlimit64, vec![is_not(0, 0)?]);
        rules.insert(libc::SYS_tgkill, vec![is_not(0, itself)?]);
        // The same calls by their x32 numbers, where the kernel supports them.
        #[cfg(target_arch = "x86_64")]
        {
            const SHORT: i64 = 0x4000_0000;
            let short = rules.keys().map(|call| (call | SHORT, Vec::new()));
            let short: Vec<_> = short.collect();
            rules.extend(short);
        }
        apply(rules, libc::EACCES)?;
        // The flags of `openat2` are behind a pointer, which a filter can't read. Programs fall
        // back to `openat` when the call is missing.
        apply(
            BTreeMap::from([(libc::SYS_openat2, Vec::new())]),
            libc::ENOSYS,
        )
    }

    /// Refuses calls with an error, irrevocably.
    fn apply(
        rules: BTreeMap<i64, Vec<SeccompRule>>,
        error: libc::c_int,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            SeccompAction::Errno(error.unsigned_abs()),
            std::env::consts::ARCH.try_into()?,
        )?;
        let program: BpfProgram = filter.try_into()?;
        seccompiler::apply_filter(&program)?;
        Ok(())
    }

    /// Matches an argument that differs from a number.
    fn is_not(argument: u8, number: u64) -> Result<SeccompRule, seccompiler::BackendError> {
        let length = SeccompCmpArgLen::Dword;
        let other = SeccompCondition::new(argument, length, SeccompCmpOp::Ne, number)?;
        SeccompRule::new(vec![other])
    }

    /// Matches open flags, at this position of the arguments, that ask for more than reading.
    fn opens_to_change(argument: u8) -> Result<Vec<SeccompRule>, Box<dyn std::error::Error>> {
        let more = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC];
        let rule = |flag: libc::c_int| {
            let flag = u64::from(flag.unsigned_abs());
            let length = SeccompCmpArgLen::Dword;
            let has = SeccompCondition::new(argument, length, SeccompCmpOp::MaskedEq(flag), flag)?;
            SeccompRule::new(vec![has])
        };
        more.into_iter()
            .map(|flag| rule(flag).map_err(Into::into))
            .collect()
    }
}
