# SPDX-License-Identifier: Apache-2.0
"""Builds the libraries and the command for a wheel, by Meson, and adds them to it.

The wheel `berth` gets bin, lib and share of an installation below `berth/`. The wheel `berth-sim`
adds the simulated driver to the same folders, where libberth and the command look for it.

CUDA_HOME names a CUDA Toolkit, for its headers only. Where there is none, the headers come from
PyPI. fmt, nlohmann-json, CLI11 and zlib come from the system, and are part of what is built.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HEADERS = ["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88"]
#: What belongs to `berth-sim`, below the folder of the installation.
SIMULATED = ("lib/libberth_sim.", "lib/berth/sim/", "share/berth/pytest/")
#: pytest finds a plug-in as a module of its own.
MOVED = {"share/berth/pytest/berth_sim.py": "berth_sim.py"}


def toolkit_include():
    """The folder of cuda.h: that of a CUDA Toolkit, or that of the wheel."""
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    if toolkit and os.path.exists(f"{toolkit}/include/cuda.h"):
        return f"{toolkit}/include"
    for folder in sys.path:
        found = pathlib.Path(folder, "nvidia/cu13/include")
        if (found / "cuda.h").exists():
            return str(found)
    return None


class NativeFiles(BuildHookInterface):
    def dependencies(self):
        missing = [] if shutil.which("meson") else ["meson>=1.0"]
        missing += [] if shutil.which("ninja") else ["ninja"]
        return missing + ([] if toolkit_include() else HEADERS)

    def initialize(self, version, build_data):
        if version == "editable":
            return  # BERTH_LIBRARY names a library that was built by hand
        part = self.config["part"]
        prefix = self.build() / "usr"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        for path in sorted(prefix.rglob("*")):
            name = path.relative_to(prefix).as_posix()
            if path.is_symlink() or path.is_dir():
                continue
            if name.startswith(SIMULATED) != (part == "sim"):
                continue
            # A wheel has no links, so each library has the name by which it is loaded.
            name = MOVED.get(name, "berth/" + re.sub(r"(\.so\.\d+)\.[\d.]+$", r"\1", name))
            build_data["force_include"][str(path)] = name

    def build(self):
        """The root of an installation of what a program needs that runs."""
        source = pathlib.Path(self.root, self.config["source"]).resolve()
        folder = source / "build" / "wheel"
        include = toolkit_include()
        if include is None:
            sys.exit("cuda.h was not found: set CUDA_HOME to a CUDA Toolkit")
        options = [
            "--prefix=/usr",
            "--libdir=lib",
            "-Dbuildtype=release",
            "-Dwheel=true",
            "-Dtests=false",
            f"-Dtoolkit_include={include}",
        ]
        said = folder / "wheel-options"
        if not said.exists() or said.read_text(encoding="utf-8") != "\n".join(options):
            shutil.rmtree(folder, ignore_errors=True)
            self.run("meson", "setup", folder, source, *options)
            said.write_text("\n".join(options), encoding="utf-8")
        self.run("meson", "compile", "-C", folder)
        files = folder / "files"
        shutil.rmtree(files, ignore_errors=True)
        self.run(
            "meson", "install", "-C", folder, "--no-rebuild", "--quiet",
            f"--destdir={files}", "--tags=runtime",
        )  # fmt: skip
        return files

    def run(self, *command):
        words = [str(word) for word in command]
        self.app.display_info(" ".join(words))
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
