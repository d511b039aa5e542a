#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages. `files`: what debian/ says twice agrees. `build`: builds the packages in a
copy of the sources, without optimization, looks into them, by lintian too where that is installed,
and runs the command and the Python module from their files on the simulated driver.

  debian_test.py files|build --source CHECKOUT --version VERSION

Exit status 77 if the tools of Debian or the packages that the build needs are missing.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

EXIT_SKIPPED = 77
PACKAGES = {"berth-sim", "berth-tools", "libberth-dev", "libberth0", "python3-berth"}
COPIED = shutil.ignore_patterns("build", ".git", "__pycache__")


def run(*command, **options):
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-8000:]}exit status {done.returncode} from: {' '.join(words)}")
    return done.stdout


def require(condition, what):
    if not condition:
        sys.exit(what)


def check_files(source, version):
    debian = source / "debian"
    first = (debian / "changelog").read_text(encoding="utf-8").splitlines()[0]
    require(f"({version})" in first, f"debian/changelog is not of {version}: {first}")
    named = re.findall(r"^Package: (\S+)", (debian / "control").read_text(encoding="utf-8"), re.M)
    require(set(named) == PACKAGES, f"debian/control has {named}")
    parts = version.split(".")
    following = ".".join([*parts[:-1], str(int(parts[-1]) + 1)])
    for path in debian.glob("*.shlibs"):
        for line in path.read_text(encoding="utf-8").splitlines():
            library, _, package, *_ = line.split()
            bounds = f"{package} (>= {version}), {package} (<< {following}~)"
            require(line == f"{library} 0 {bounds}", f"{path.name}: {line}")


def contents(package, folder):
    run("dpkg-deb", "-x", package, folder)
    return [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    ]


def check_packages(built, folder):
    packages = {path.name.split("_")[0]: path for path in built.glob("*.deb")}
    packages = {name: path for name, path in packages.items() if not name.endswith("-dbgsym")}
    require(set(packages) == PACKAGES, f"built were {sorted(packages)}")
    files = {name: contents(path, folder / name) for name, path in packages.items()}
    lookalikes = [
        f"{name}: {file}"
        for name, listed in files.items()
        for file in listed
        if re.search(r"/lib(cuda|cudart|nvidia-ml)\.", file)
    ]
    require(lookalikes, "there are no look-alikes")
    for place in lookalikes:
        require(
            re.match(r"berth-sim: usr/lib/[^/]+/berth/sim/lib", place), f"in a wrong place: {place}"
        )
    shlibs = run("dpkg-deb", "-I", packages["berth-sim"], "shlibs")
    require(shlibs.split()[0] == "libberth_sim" and len(shlibs.splitlines()) == 1, shlibs)
    for file in files["libberth-dev"]:
        require(not re.search(r"\.so\.\d", file), f"libberth-dev has {file}")
    depends = run("dpkg-deb", "-f", packages["berth-tools"], "Depends")
    require("libberth0 (>=" in depends and "libberth0 (<<" in depends, depends)


def check_programs(folder):
    root = folder / "root"
    for name in PACKAGES:
        shutil.copytree(folder / name, root, symlinks=True, dirs_exist_ok=True)
    libraries = next(root.glob("usr/lib/*/libberth.so.0")).parent
    environment = {
        **os.environ,
        "BERTH_DRIVER": "sim",
        "LD_LIBRARY_PATH": str(libraries),
        "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"),
    }
    require("cuda:0" in run(root / "usr/bin/berth", "devices", env=environment), "berth devices")
    program = "import berth; print(len(berth.Runtime().devices), berth.__file__)"
    printed = run("python3", "-B", "-c", program, env=environment)
    require(printed.startswith("2 ") and str(root) in printed, printed)


def build(source, version):
    if not all(shutil.which(tool) for tool in ("dpkg-buildpackage", "dh", "dpkg-checkbuilddeps")):
        print("skipped: debhelper and dpkg-dev are not installed")
        return EXIT_SKIPPED
    missing = subprocess.run(
        ["dpkg-checkbuilddeps"], cwd=source, capture_output=True, text=True, check=False
    )
    if missing.returncode != 0:
        print(f"skipped: {missing.stderr.strip()}")
        return EXIT_SKIPPED
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        copy = folder / "built" / f"berth-{version}"
        shutil.copytree(source, copy, ignore=COPIED)
        environment = {**os.environ, "DEB_BUILD_OPTIONS": f"noopt parallel={os.cpu_count()}"}
        run("dpkg-buildpackage", "-b", "-uc", "-us", cwd=copy, env=environment)
        check_packages(folder / "built", folder / "files")
        if shutil.which("lintian"):
            changes = next((folder / "built").glob("*.changes"))
            run("lintian", "--allow-root", "--fail-on", "error,warning", changes)
        check_programs(folder / "files")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("files", "build"))
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    options = parser.parse_args()
    if options.what == "build":
        return build(options.source, options.version)
    check_files(options.source, options.version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
