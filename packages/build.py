#!/usr/bin/env python3
"""Makes the packages of forge-search from a built program, with Python's standard library alone.

    build.py npm --programs DIR --platform linux-x64 --out OUT
    build.py npm-launcher --out OUT
    build.py deb --programs DIR --out OUT
    build.py archive --programs DIR --target x86_64-unknown-linux-musl --out OUT
    build.py formula --archives OUT --repository OWNER/NAME
    build.py server-json --repository OWNER/NAME
    build.py sbom

DIR has the built programs, for example target/dist. Wheels are made by maturin (pyproject.toml).
Equal inputs give equal bytes: times are those of SOURCE_DATE_EPOCH, or 0.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "packages"
CRATE = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]
NAME, VERSION = CRATE["name"], CRATE["version"]
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
LICENSES = ["LICENSE-MIT", "LICENSE-APACHE"]

# The platforms of npm: `os` and `cpu` of Node.js. Those of Linux have the static program.
PLATFORMS = {
    "linux-x64": ("linux", "x64"),
    "linux-arm64": ("linux", "arm64"),
    "darwin-x64": ("darwin", "x64"),
    "darwin-arm64": ("darwin", "arm64"),
    "win32-x64": ("win32", "x64"),
}


def programs(directory, required=("forge-search",)):
    """Returns the built programs of a directory."""
    names = ["forge-search", "ggrep", "forge-search.exe"]
    found = [Path(directory) / name for name in names if (Path(directory) / name).is_file()]
    stems = [path.stem for path in found]
    missing = [name for name in required if name not in stems]
    if missing:
        sys.exit(f"{directory} has no {', '.join(missing)}; build it, or name another directory")
    return found


def pack(root, path, top):
    """Writes the files below a directory to a .tar.gz, with fixed owners, times and order."""
    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = EPOCH
        return entry

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for each in sorted(p for p in Path(root).rglob("*") if p.is_file()):
            tar.add(each, f"{top}/{each.relative_to(root)}", filter=plain)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, EPOCH) as out:
        out.write(buffer.getvalue())


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="\n")


def install(source, target, mode):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def npm_manifest(name, args, **fields):
    """Returns the text of a package.json."""
    manifest = {"name": name, "version": VERSION, "license": CRATE["license"]}
    if args.repository:
        manifest["repository"] = {"type": "git", "url": f"git+https://github.com/{args.repository}.git"}
    return json.dumps({**manifest, **fields}, indent=2) + "\n"


def npm(args):
    """Makes the package of one platform."""
    system, cpu = PLATFORMS[args.platform]
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        name = f"{NAME}-{args.platform}"
        manifest = npm_manifest(name, args, description=f"{NAME} for {args.platform}", os=[system], cpu=[cpu])
        write(root / "package.json", manifest)
        for program in programs(args.programs):
            install(program, root / "bin" / program.name, 0o755)
        for text in LICENSES:
            install(ROOT / text, root / text, 0o644)
        pack(root, args.out / f"{name}-{VERSION}.tgz", "package")


def npm_launcher(args):
    """Makes the package that selects the one of a platform. It is the same for all platforms."""
    fields = {
        "description": CRATE["description"],
        "keywords": CRATE["keywords"],
        "bin": {NAME: "launcher.js", "ggrep": "launcher.js"},
        "engines": {"node": ">=16"},
        "optionalDependencies": {f"{NAME}-{each}": VERSION for each in PLATFORMS},
    }
    if args.repository:
        fields["mcpName"] = server_name(args.repository)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        write(root / "package.json", npm_manifest(NAME, args, **fields))
        install(HERE / "npm/launcher.js", root / "launcher.js", 0o755)
        install(ROOT / "README.md", root / "README.md", 0o644)
        for text in LICENSES:
            install(ROOT / text, root / text, 0o644)
        pack(root, args.out / f"{NAME}-{VERSION}.tgz", "package")


def glibc(program):
    """Returns the lowest version of the C library that has the symbols of a program."""
    versions = re.findall(rb"GLIBC_2\.(\d+)", program.read_bytes())
    return max((int(version) for version in versions), default=None)


def generated(program, *words):
    run = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return run.stdout.decode()


def deb(args):
    """Makes a Debian package: programs, manual pages, completions, and a unit of systemd."""
    found = programs(args.programs, ["forge-search", "ggrep"])
    program = found[0]
    arch = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        for each in found:
            install(each, root / "usr/bin" / each.name, 0o755)
            subprocess.run(["strip", root / "usr/bin" / each.name], check=True)
        pages = root / "usr/share/man/man1"
        generated(program, "man", "--dir", str(pages))
        for page in sorted(pages.iterdir()):
            (pages / f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), 9, mtime=EPOCH))
            page.unlink()
        completions = {
            "bash": f"usr/share/bash-completion/completions/{NAME}",
            "zsh": f"usr/share/zsh/vendor-completions/_{NAME}",
            "fish": f"usr/share/fish/vendor_completions.d/{NAME}.fish",
        }
        for shell, place in completions.items():
            write(root / place, generated(program, "completions", shell))
        install(HERE / "debian/forge-search@.service", root / "usr/lib/systemd/user/forge-search@.service", 0o644)
        doc = root / "usr/share/doc" / NAME
        write(doc / "copyright", (HERE / "debian/copyright").read_text())
        install(ROOT / "README.md", doc / "README.md", 0o644)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
        libc = max(filter(None, map(glibc, found)), default=None)
        fields = {
            "Package": NAME,
            "Version": VERSION,
            "Architecture": arch,
            "Maintainer": args.maintainer,
            "Installed-Size": size,
            **({"Depends": f"libc6 (>= 2.{libc})"} if libc else {}),
            "Section": "utils",
            "Priority": "optional",
            "Description": f"{CRATE['description']}\n An index makes searches fast, yet each answer is exactly that of a full scan.",
        }
        write(root / "DEBIAN/control", "".join(f"{key}: {value}\n" for key, value in fields.items()))
        for path in root.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        args.out.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, args.out / f"{NAME}_{VERSION}_{arch}.deb"],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}, stdout=subprocess.DEVNULL, check=True,
        )


def archive(args):
    """Makes an archive of the programs, and a file with its checksum."""
    top = f"{NAME}-{args.target}"
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        for program in programs(args.programs):
            install(program, root / program.name, 0o755)
        for text in [*LICENSES, "README.md", "CHANGELOG.md"]:
            install(ROOT / text, root / text, 0o644)
        path = args.out / f"{top}.tar.gz"
        pack(root, path, top)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    write(args.out / f"{path.name}.sha256", f"{digest}  {path.name}\n")


def formula(args):
    """Prints the formula of Homebrew for the archives of a release."""
    def at(target):
        name = f"{NAME}-{target}.tar.gz"
        digest = (args.archives / f"{name}.sha256").read_text().split()[0]
        url = f"https://github.com/{args.repository}/releases/download/v{VERSION}/{name}"
        return f'      url "{url}"\n      sha256 "{digest}"\n'

    print(f"""class ForgeSearch < Formula
  desc "{CRATE['description'][:79]}"
  homepage "https://github.com/{args.repository}"
  version "{VERSION}"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
{at('aarch64-apple-darwin')}    end
    on_intel do
{at('x86_64-apple-darwin')}    end
  end
  on_linux do
    on_arm do
{at('aarch64-unknown-linux-musl')}    end
    on_intel do
{at('x86_64-unknown-linux-musl')}    end
  end

  def install
    bin.install "forge-search", "ggrep"
    system bin/"forge-search", "man", "--dir", man1
    generate_completions_from_executable(bin/"forge-search", "completions")
  end

  test do
    (testpath/"a.txt").write "needle\\n"
    assert_match "a.txt:1:1:needle", shell_output("#{{bin}}/forge-search needle a.txt")
  end
end""")


def server_name(repository):
    return f"io.github.{repository.split('/')[0]}/{NAME}"


def server_json(args):
    """Prints the description for the registry of the Model Context Protocol."""
    print(json.dumps({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": server_name(args.repository),
        "title": NAME,
        "description": CRATE["description"][:100],
        "repository": {"url": f"https://github.com/{args.repository}", "source": "github"},
        "version": VERSION,
        "packages": [{
            "registryType": "npm",
            "identifier": NAME,
            "version": VERSION,
            "runtimeHint": "npx",
            "transport": {"type": "stdio"},
            "packageArguments": [{"type": "positional", "value": "mcp"}],
        }],
    }, indent=2))


def sbom(_args):
    """Prints the crates that the program is built from, in CycloneDX."""
    told = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )
    metadata = json.loads(told.stdout)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(each["name"], each["version"]): each.get("checksum") for each in lock}
    packages = {each["id"]: each for each in metadata["packages"]}
    nodes = {each["id"]: each for each in metadata["resolve"]["nodes"]}

    def below(node):
        kept = [dep for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
        return sorted(dep["pkg"] for dep in kept)

    def purl(identity):
        package = packages[identity]
        return f"pkg:cargo/{package['name']}@{package['version']}"

    top = metadata["resolve"]["root"]
    seen, todo = {top}, [top]
    while todo:
        for each in below(nodes[todo.pop()]):
            if each not in seen:
                seen.add(each)
                todo.append(each)

    def component(identity):
        package = packages[identity]
        found = {"type": "library", "bom-ref": purl(identity), "name": package["name"], "version": package["version"], "purl": purl(identity)}
        if package["license"]:
            # Old crates separate alternatives by a slash.
            found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        digest = sums.get((package["name"], package["version"]))
        if digest:
            found["hashes"] = [{"alg": "SHA-256", "content": digest}]
        return found

    print(json.dumps({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(top), "type": "application"}},
        "components": sorted((component(each) for each in seen - {top}), key=lambda each: each["purl"]),
        "dependencies": sorted(
            ({"ref": purl(each), "dependsOn": sorted(map(purl, below(nodes[each])))} for each in seen),
            key=lambda each: each["ref"],
        ),
    }, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, *flags):
        sub = commands.add_parser(name, help=run.__doc__)
        sub.set_defaults(run=run)
        for flag in flags:
            sub.add_argument(flag, required=True, type=Path if flag in ("--programs", "--out", "--archives") else str)
        return sub

    sub = command("npm", npm, "--programs", "--out")
    sub.add_argument("--platform", required=True, choices=PLATFORMS)
    sub.add_argument("--repository")
    command("npm-launcher", npm_launcher, "--out").add_argument("--repository")
    sub = command("deb", deb, "--programs", "--out")
    sub.add_argument("--maintainer", default=f"The authors of {NAME}")
    command("archive", archive, "--programs", "--target", "--out")
    command("formula", formula, "--archives", "--repository")
    command("server-json", server_json, "--repository")
    command("sbom", sbom)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
