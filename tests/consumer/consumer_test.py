#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds outside programs against the installed library, as somebody who embeds berth does, and
runs them on the simulated driver: README.md's example and designated.cpp in C++, round_trip.c in C,
and the test that docs/simulator.md shows, each with the shared libraries and with the static ones;
adapters.cpp and two_copies.c with the shared ones. Then without libberth_sim: the programs say what
is missing. With pkg-config also: the errors of an older compiler, raised privileges, the notices,
the paths and the hardening of what is installed, and what libraries keep for each thread. With
nvcc: compare.cu, with the shared library.

  consumer_test.py pkg-config|cmake|nvcc --source CHECKOUT --build BUILD_FOLDER --libdir DIR
                   --version VERSION --cc COMMAND --cxx COMMAND [--nvcc FILE] [--werror]
                   [--fortified] [--adapter-flag FLAG]...

Exit status 77 if pkg-config, cmake or nvcc is missing.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import readme
import thread_blocks

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic"]
EXIT_SKIPPED = 77


def run(*command, **environment):
    """The standard output of the command, which must succeed."""
    command = [str(word) for word in command]
    print("+", shlex.join(command), flush=True)
    done = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}exit status {done.returncode} from: {shlex.join(command)}")
    return done.stdout.strip()


def install(options, folder):
    """Installs into `folder`, and returns the prefix and the library folder within."""
    run("meson", "install", "-C", options.build, "--no-rebuild", "--quiet", "--destdir", folder)
    config = next(folder.rglob("berth.pc"), None)
    if config is None:
        sys.exit("the installed tree has no berth.pc")
    libdir = config.parent.parent
    prefix = libdir
    for _ in pathlib.PurePath(options.libdir).parts:
        prefix = prefix.parent
    return prefix, libdir


def write_examples(source, folder):
    """Writes the programs of the documentation into `folder`, and returns their paths by name."""
    examples = {}
    for name, page in (("readme", "README.md"), ("simulated", "docs/simulator.md")):
        examples[name] = folder / f"{name}_example.cpp"
        try:
            text = readme.example(source / page)
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        examples[name].write_text(text, encoding="utf-8")
    return examples


def has_simulator(libdir):
    return (libdir / "libberth_sim.so").exists()


def build_with_pkg_config(options, folder, prefix, libdir, examples):
    path = f"{libdir}/pkgconfig:{os.environ.get('PKG_CONFIG_PATH', '')}"

    def pkg_config(*words):
        return run("pkg-config", *words, PKG_CONFIG_PATH=path)

    if pkg_config("--modversion", "berth") != options.version:
        sys.exit(f"pkg-config finds another version than {options.version}")
    round_trip = options.source / "tests/consumer/round_trip.c"
    cxx = [*shlex.split(options.cxx), "-std=c++20"]
    designated = options.source / "tests/consumer/designated.cpp"
    programs = [
        ("readme", examples["readme"], cxx, ["berth"]),
        ("designated", designated, cxx, ["berth"]),
        ("round_trip", round_trip, [*shlex.split(options.cc), "-std=c11"], ["berth"]),
    ]
    if has_simulator(libdir):
        programs.append(("simulated", examples["simulated"], cxx, ["berth", "berth_sim"]))
    for name, source, compiler, packages in programs:
        for linkage, flags in (("shared", []), ("static", ["--static"])):
            words = shlex.split(pkg_config("--cflags", "--libs", *flags, *packages))
            if linkage == "static":
                # If both libraries are installed, -lberth means the shared one.
                words = [re.sub(r"^-l(berth\w*)$", r"-l:lib\1.a", word) for word in words]
            run(*compiler, *options.warnings, source, "-o", folder / f"{name}_{linkage}", *words)
    words = shlex.split(pkg_config("--cflags", "--libs", "berth"))
    for source, command in (
        ("adapters.cpp", [*cxx, *options.adapter_flag]),
        ("two_copies.c", [*shlex.split(options.cc), "-std=c11"]),
    ):
        program = folder / pathlib.PurePath(source).stem
        path = options.source / "tests/consumer" / source
        run(*command, *options.warnings, path, "-o", program, *words, "-ldl")


def build_with_cmake(options, folder, prefix, libdir, examples):
    run(
        "cmake", "-G", "Ninja", "-S", options.source / "tests/consumer", "-B", folder,
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DREADME_EXAMPLE={examples['readme']}",
        f"-DSIMULATED_EXAMPLE={examples['simulated']}",
        f"-DBERTH_VERSION_WANTED={options.version}", f"-DWARNINGS={';'.join(options.warnings)}",
        f"-DADAPTER_FLAGS={' '.join(options.adapter_flag)}",
        CC=options.cc, CXX=options.cxx,
    )  # fmt: skip
    run("cmake", "--build", folder)


def build_with_nvcc(options, folder, prefix, libdir, _):
    # nvcc wants the compiler itself, without a compiler cache in front of it.
    words = [options.finder_path, "-std=c++20", "-ccbin", shlex.split(options.cxx)[-1]]
    words += [
        "-Xcompiler",
        "-Wall,-Wextra",
        *(["-Werror", "all-warnings"] if options.werror else []),
    ]
    words += ["-Xcompiler", "-Werror"] if options.werror else []
    source = options.source / "tests/consumer/compare.cu"
    run(*words, f"-I{prefix}/include", source, "-o", folder / "compare_shared", f"-L{libdir}",
        "-lberth")  # fmt: skip


def expect(expected, printed):
    if not re.fullmatch(expected, printed):
        sys.exit(f'printed "{printed}" instead of "{expected}"')


def check_adapters(folder, libdir, environment):
    torch = libdir / "libberth_torch.so"
    expect("all adapters", run(folder / "adapters", torch, **environment))


def check_two_copies(folder, libdir, environment):
    """A copy of the library under another name works beside it, and calls nothing of it."""
    copy = folder / "plugin_of_another_vendor.so"
    shutil.copy(libdir / "libberth.so.0", copy)
    expect("two libraries", run(folder / "two_copies", copy, **environment))
    bindings = subprocess.run(
        [folder / "two_copies", copy], env={**os.environ, **environment, "LD_DEBUG": "bindings"},
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    if f"binding file {copy}" not in bindings:
        sys.exit("the loader does not tell its bindings")
    own = re.escape(str(copy))
    mixed = re.findall(rf"binding file {own} .* to .*/libberth\.so\.0 .*", bindings)
    if mixed:
        sys.exit(f"{len(mixed)} symbols of the copy are those of the other library:\n{mixed[0]}")


def check_programs(folder, libdir, version):
    # Those that link berth statically find libberth_sim as the loader finds any library.
    environment = {"BERTH_DRIVER": "sim", "LD_LIBRARY_PATH": str(libdir)}
    for linkage in ("shared", "static"):
        expect(readme.OUTPUT, run(folder / f"readme_{linkage}", **environment))
        expect("allocated", run(folder / f"designated_{linkage}", **environment))
        expect(re.escape(version), run(folder / f"round_trip_{linkage}", **environment))
        expect("race: .*", run(folder / f"simulated_{linkage}", **environment))
    check_adapters(folder, libdir, environment)
    check_two_copies(folder, libdir, environment)
    # The look-alike of the driver finds libberth_sim by itself.
    lookalike = libdir / "berth/sim/libcuda.so.1"
    expect(readme.OUTPUT, run(folder / "readme_static", BERTH_DRIVER=str(lookalike)))


def installed_headers(prefix):
    """All but those that include CCCL, which has its own rules."""
    for header in sorted((prefix / "include/berth").rglob("*.h*")):
        if header.name not in ("cuda_memory_resource.hpp", "thrust_allocator.hpp"):
            yield header


def check_older_language(options, folder, prefix):
    """A C++17 compiler says once what berth needs, and takes the C API."""
    compiler = [*shlex.split(options.cxx), "-std=c++17", "-fsyntax-only", f"-I{prefix}/include"]
    source = folder / "older.cpp"
    for header in installed_headers(prefix):
        name = header.relative_to(prefix / "include")
        source.write_text(f"#include <{name}>\n", encoding="utf-8")
        done = subprocess.run([*compiler, source], capture_output=True, text=True, check=False)
        if header.suffix == ".h" and done.returncode != 0:
            sys.exit(f"{done.stderr}{header.name} is for C, and is no C++17")
        # Clang quotes the line of the error, and both quote the include that ends the compilation.
        needed, *ended = re.findall(r"error: (.*)$", done.stderr, re.MULTILINE) or [""]
        told_once = "needs C++20" in needed and len(ended) == 1 and "berth_needs_cpp20" in ended[0]
        if header.suffix == ".hpp" and not told_once:
            sys.exit(f"{done.stderr}{header.name}: a C++17 compiler is not told in one error")


def check_raised_privileges(folder):
    """A program with raised privileges takes no file from the environment."""
    if os.geteuid() != 0:
        print("left out: raised privileges; only root can make such a program")
        return
    program = folder / "raised"
    shutil.copy(folder / "readme_static", program)
    os.chmod(folder.parent, 0o755)
    nobody = 65534
    os.chown(program, nobody, nobody)
    program.chmod(0o4755)
    named = "/nonexistent/driver.so"
    if named not in run(folder / "readme_static", BERTH_DRIVER=named):
        sys.exit("BERTH_DRIVER is not heeded")
    if named in run(program, BERTH_DRIVER=named):
        sys.exit("BERTH_DRIVER is heeded in a program with raised privileges")


def check_notices(prefix):
    for name in ("LICENSE", "THIRD_PARTY_NOTICES"):
        if not (prefix / "share/licenses/berth" / name).is_file():
            sys.exit(f"{name} is not installed")


def check_paths(options, prefix):
    """Nothing that is installed names a folder of the build. Static libraries may, in the debug
    information, which is not stripped from them."""
    for path in sorted(prefix.rglob("*")):
        if path.suffix == ".a" or not path.is_file():
            continue
        content = path.read_bytes()
        for named in (options.build, options.source):
            if os.fsencode(named) in content:
                sys.exit(f"{path.relative_to(prefix)} names {named}")


def check_hardening(options, prefix):
    if not options.fortified:
        print("left out: hardening; a build without optimization has no fortified functions")
        return
    run(sys.executable, "-B", options.source / "tests/tidy/check_hardening.py", prefix)


def check_thread_blocks(options, folder, libdir):
    """All installed libraries fit into one process, beside libraries of others."""
    libraries = [
        path
        for place in (libdir, libdir / "berth/sim")
        for path in sorted(place.glob("*.so*"))
        if not path.is_symlink()
    ]
    thread_blocks.check(options.cc, folder, libraries, {"LD_LIBRARY_PATH": str(libdir)})


def check_without_simulator(folder, libdir):
    for library in libdir.glob("libberth_sim.so*"):
        library.unlink()
    environment = {"BERTH_DRIVER": "sim", "LD_LIBRARY_PATH": str(libdir)}
    for linkage, beside in (("shared", libdir), ("static", folder)):
        printed = run(folder / f"readme_{linkage}", **environment)
        for part in ("simulated driver", f"{beside}/libberth_sim.so.0", "was not found"):
            if part not in printed:
                sys.exit(f'without libberth_sim printed "{printed}", without "{part}"')
    expect("race: .*", run(folder / "simulated_static", BERTH_DRIVER="sim"))


def check_with_cmake(options, folder, prefix, libdir):
    check_programs(folder, libdir, options.version)
    check_without_simulator(folder, libdir)


def check_with_pkg_config(options, folder, prefix, libdir):
    check_programs(folder, libdir, options.version)
    check_older_language(options, folder.parent, prefix)
    check_raised_privileges(folder)
    check_notices(prefix)
    check_paths(options, prefix)
    check_hardening(options, prefix)
    check_thread_blocks(options, folder, libdir)
    check_without_simulator(folder, libdir)


def check_with_nvcc(options, folder, prefix, libdir):
    environment = {"BERTH_DRIVER": "sim", "LD_LIBRARY_PATH": str(libdir)}
    expect("all comparisons agree", run(folder / "compare_shared", **environment))


# How programs are built, and how they are checked.
BUILDS = {
    "pkg-config": (build_with_pkg_config, check_with_pkg_config),
    "cmake": (build_with_cmake, check_with_cmake),
    "nvcc": (build_with_nvcc, check_with_nvcc),
}


def find_tool(options):
    """The tool that finds the library, or nvcc: the one that is named, or else in PATH."""
    if options.finder == "nvcc" and options.nvcc.is_file():
        return options.nvcc
    return shutil.which(options.finder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("finder", choices=tuple(BUILDS))
    for option in ("libdir", "version", "cc", "cxx"):
        parser.add_argument("--" + option, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--nvcc", type=pathlib.Path, default=pathlib.Path("nvcc"))
    parser.add_argument("--adapter-flag", action="append", default=[])
    parser.add_argument("--fortified", action="store_true", help="functions are fortified")
    parser.add_argument("--werror", action="store_true", help="stop at a warning")
    options = parser.parse_args()
    options.warnings = WARNINGS + (["-Werror"] if options.werror else [])

    options.finder_path = find_tool(options)
    if options.finder_path is None:
        print(f"skipped: no {options.finder} on this machine")
        return EXIT_SKIPPED
    build, check = BUILDS[options.finder]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        examples = write_examples(options.source, folder)
        prefix, libdir = install(options, folder / "installed")
        (folder / "programs").mkdir()
        build(options, folder / "programs", prefix, libdir, examples)
        check(options, folder / "programs", prefix, libdir)
    return 0


if __name__ == "__main__":
    sys.exit(main())
