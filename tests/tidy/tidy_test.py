#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tidy checks are code too: each violation, planted in a small checkout, must be reported where
it stands, and a checkout without any must pass."""

import pathlib
import tempfile
import unittest

import check_declared
import check_hardening
import check_layers
import check_symbols
import check_text
import source_tree

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
TABLE = {
    "base": [],
    "sim": ["base"],
    "driver": ["base"],
    "device": ["driver"],
    "stream": ["device"],
}

CLEAN = {
    "include/berth/device.hpp": '#include <string>\n#include "berth/export.h"\n',
    "include/berth/export.h": "#pragma once\n",
    "src/base/env.cpp": 'const char* home() { return std::getenv("HOME"); }\n',
    "src/driver/nvml_abi.hpp": "#pragma once\n",
    "src/driver/driver.hpp": "#include <cuda.h>\nauto f() { return cuInit(0); }\n",
    "src/sim/sim.cpp": '#include "driver/nvml_abi.hpp"\nCUresult cuInit(unsigned) { return 0; }\n',
    "src/stream/stream.cpp": '#include "berth/device.hpp"\n#include "base/env.hpp"\n'
    "// cuStreamQuery is meant\n"
    'const char* name = "cuStreamQuery, \\" getenv";\nchar quote = \'"\'; int big = 1\'000;\n',
    "src/tool/main.cpp": '#include "berth/device.hpp"\n#include "tool/table.hpp"\n'
    'auto* home = getenv("HOME");\n',
}


class Checkout:
    """A throw-away checkout; `files` maps paths to the text after the licence line."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(SPDX + text, encoding="utf-8")

    def __enter__(self):
        return self.root

    def __exit__(self, *_):
        self.folder.cleanup()


class LayerTest(unittest.TestCase):
    def found(self, planted):
        with Checkout({**CLEAN, **planted}) as root:
            return list(check_layers.problems(root, TABLE))

    def assert_one(self, path, text, line, word):
        """A file with `text` is the one violation of the checkout, on `line`, about `word`."""
        found = self.found({path: text})
        self.assertEqual([(file, number) for file, number, _ in found], [(path, line)], found)
        self.assertIn(word, found[0][2])

    def test_a_clean_checkout_passes(self):
        self.assertEqual(self.found({}), [])

    def test_an_include_of_a_higher_layer_is_reported(self):
        self.assert_one("src/driver/x.cpp", '\n#include "stream/stream.hpp"\n', 3, "src/stream")

    def test_an_include_of_a_layer_beside_it_is_reported(self):
        self.assert_one("src/stream/x.cpp", '#include "sim/sim.hpp"\n', 2, "src/sim")

    def test_the_simulator_gets_no_more_of_the_driver_than_the_nvml_abi(self):
        self.assert_one("src/sim/x.cpp", '#include "driver/driver.hpp"\n', 2, "src/driver")

    def test_the_extra_include_is_the_simulators_alone(self):
        self.assert_one("src/base/x.cpp", '#include "driver/nvml_abi.hpp"\n', 2, "src/driver")

    def test_an_include_without_a_folder_is_reported(self):
        self.assert_one("src/base/x.cpp", '#include "bytes.hpp"\n', 2, "bytes.hpp")

    def test_an_include_that_climbs_is_reported(self):
        self.assert_one("src/base/x.cpp", '#include "../stream/stream.hpp"\n', 2, "neither")

    def test_an_include_by_macro_is_reported(self):
        self.assert_one("src/base/x.cpp", "# include HEADER\n", 2, "macro")

    def test_a_public_header_of_a_higher_layer_is_reported(self):
        own = {
            "include/berth/event.hpp": "",
            "src/stream/event.cpp": '#include "berth/event.hpp"\n',
        }
        self.assertEqual(self.found(own), [])
        for layer, problems in (("device", 1), ("stream", 0), ("tool", 0)):
            with self.subTest(layer):
                found = self.found({**own, f"src/{layer}/x.hpp": '#include "berth/event.hpp"\n'})
                self.assertEqual(len(found), problems, found)

    def test_a_private_header_in_the_command_is_reported(self):
        self.assert_one("src/tool/x.cpp", '#include "base/bytes.hpp"\n', 2, "src/base")

    def test_cuda_h_is_for_layers_above_the_driver_only(self):
        self.assertEqual(self.found({"src/stream/x.cpp": "#include <cuda.h>\n"}), [])
        self.assert_one("src/base/x.cpp", "#include <cuda.h>\n", 2, "<cuda.h>")
        self.assert_one("src/tool/x.cpp", "#include <cuda.h>\n", 2, "<cuda.h>")

    def test_fmt_is_for_the_base_and_the_command_only(self):
        for layer, problems in (("base", 0), ("tool", 0), ("stream", 1)):
            with self.subTest(layer):
                found = self.found({f"src/{layer}/x.hpp": "#include <fmt/format.h>\n"})
                self.assertEqual(len(found), problems, found)

    def test_a_public_header_that_includes_cuda_fmt_or_src_is_reported(self):
        for target in ("<cuda.h>", "<cuda_runtime.h>", "<fmt/format.h>", '"base/check.hpp"'):
            with self.subTest(target):
                text = f"\n#include {target}\n"
                self.assert_one("include/berth/x.hpp", text, 3, target)

    def test_a_public_header_that_includes_one_that_is_not_there_is_reported(self):
        self.assert_one("include/berth/x.hpp", '#include "berth/no.hpp"\n', 2, "does not exist")

    def test_a_cuda_name_outside_of_the_seam_is_reported(self):
        for code in (
            "cuMemFree(p);",
            "auto f = &cuMemFree;",
            "#define F cuMemFree",
            "cudaFree(p);",
        ):
            with self.subTest(code):
                self.assert_one("src/stream/x.cpp", f"/* a\n b */\n{code}\n", 4, "may name cu")

    def test_reading_the_environment_elsewhere_is_reported(self):
        for code in ('std::getenv("A")', 'secure_getenv("A")', "extern char** environ"):
            with self.subTest(code):
                self.assert_one("src/base/x.cpp", f"auto a = {code};\n", 2, "environment")

    def test_a_folder_that_is_no_layer_is_reported(self):
        self.assert_one("src/extra/x.cpp", "", 1, "no layer")


class DeclaredTest(unittest.TestCase):
    HEADERS = {
        "include/berth/device.hpp": "class BERTH_API Device final {};\n",
        "src/base/part.hpp": '#include "berth/device.hpp"\nstruct Part {};\nclass Lock {};\n'
        + "Part make_part(int count);\nvoid open();\n",
        "src/sim/part.hpp": "class Lock {};\nvoid open();\n",
    }

    def problems(self, text):
        with Checkout(self.HEADERS | {"src/base/use.hpp": text}) as root:
            sources = check_declared.Sources(root)
            return list(sources.problems(root / "src/base/use.hpp"))

    def test_a_type_without_its_include_is_reported_once(self):
        self.assertEqual(
            self.problems("Part first();\nPart second();\n"),
            ["src/base/use.hpp:2: Part is of src/base/part.hpp, which this does not include"],
        )
        self.assertEqual(len(self.problems('#include "berth/device.hpp"\nPart part(Device);\n')), 1)

    def test_a_type_that_an_include_declares_passes(self):
        self.assertEqual(self.problems('#include "base/part.hpp"\nPart part(Device);\n'), [])

    def test_a_type_that_the_file_declares_passes(self):
        for text in (
            "class Part;\nPart part();\n",
            "struct Whole {\n  struct Part {};\n  Part part;\n};\n",
            "using Part = int;\nPart part();\n",
            "template <class... Part>\nvoid call(Part... parts);\n",
            "template <typename Part>\nvoid call(Part part);\n",
        ):
            with self.subTest(text):
                self.assertEqual(self.problems(text), [])

    def test_comments_members_and_names_of_several_headers_pass(self):
        self.assertEqual(self.problems("// Part\nint a = whole.Part + other::Part;\nLock b;\n"), [])

    def test_a_function_without_its_include_is_reported_once(self):
        self.assertEqual(
            self.problems("auto part = make_part(1);\nauto other = make_part(2);\n"),
            ["src/base/use.hpp:2: make_part() is of src/base/part.hpp, which this does not "
             "include"],
        )

    def test_a_function_that_is_declared_or_of_several_headers_passes(self):
        for text in (
            '#include "base/part.hpp"\nauto part = make_part(1);\n',
            "struct Maker {\n  int make_part(int);\n  int a = make_part(1);\n};\n",
            "const auto make_part = [](int) {};\nint a = make_part(1);\n",
            "int a = maker.make_part(1);\n",
            "void f() { open(); }\n",
        ):
            with self.subTest(text):
                self.assertEqual(self.problems(text), [])

    def test_a_name_of_cuda_without_its_header_is_reported(self):
        self.assertEqual(
            self.problems("CUresult a;\nint b = CUDA_SUCCESS;\n"),
            ["src/base/use.hpp:2: CUresult is of cuda.h, which this does not include"],
        )
        self.assertEqual(self.problems("#include <cuda.h>\nCUresult a;\n"), [])
        self.assertEqual(self.problems("using Stream = struct CUstream_st*;\n"), [])


class TextTest(unittest.TestCase):
    def assert_one(self, text, line, word):
        found = list(check_text.problems_of(text))
        self.assertEqual([number for number, _ in found], [line], found)
        self.assertIn(word, found[0][1])

    def test_a_clean_file_passes(self):
        for text in (SPDX + "int a;\n", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"):
            self.assertEqual(list(check_text.problems_of(text)), [])

    def test_a_missing_or_late_licence_is_reported(self):
        self.assert_one("int a;\n" + SPDX, 1, "licence")
        self.assert_one("#!/bin/sh\ntrue\n", 2, "licence")
        self.assert_one("", 1, "licence")

    def test_a_long_file_is_reported(self):
        self.assertEqual(list(check_text.problems_of(SPDX + "\n" * 399)), [])
        self.assert_one(SPDX + "\n" * 400, 401, "400")

    def test_a_wide_line_is_reported(self):
        self.assertEqual(list(check_text.problems_of(SPDX + "x" * 100 + "\n")), [])
        self.assert_one(SPDX + "x" * 101 + "\n", 2, "101 columns")

    def test_a_wide_line_of_prose_is_reported(self):
        wide = "word " * 21
        for text in ("word " * 20 + "\n", f"```\n{wide}\n```\n", f"| {wide}|\n", "x" * 101 + "\n"):
            self.assertEqual(list(check_text.width_problems(check_text.prose(text))), [], text)
        found = list(check_text.width_problems(check_text.prose(f"```\n```\n{wide}\n")))
        self.assertEqual(found, [(3, "105 columns, at most 100")])
        with Checkout({"docs/a.md": wide}) as root:
            self.assertEqual([file for file, _, _ in check_text.problems(root)], ["docs/a.md"])

    def test_comments_of_public_headers_have_labels_of_a_list(self):
        planted = {
            "include/berth/a.hpp": "/// Errors  InvalidArgument.\n/// Forks  none\n",
            "src/base/a.hpp": "/// Forks  none\n",
        }
        with Checkout(planted) as root:
            found = list(check_text.problems(root))
        self.assertEqual(
            [(file, line) for file, line, _ in found], [("include/berth/a.hpp", 3)], found
        )

    def test_public_headers_are_on_their_page(self):
        planted = {
            "include/berth/a.hpp": "",
            "include/berth/b.hpp": "",
            "include/berth/c.hpp": "",
            "docs/headers.md": "`a.hpp`, <berth/b.hpp>\n",
        }
        with Checkout(planted) as root:
            found = list(check_text.problems(root))
        self.assertEqual(found, [("docs/headers.md", 1, "c.hpp is not listed")])

    def test_tabs_and_trailing_blanks_are_reported(self):
        self.assert_one(SPDX + "a\tb\n", 2, "tab")
        self.assert_one(SPDX + "a \n", 2, "blanks")

    def test_marks_of_unfinished_work_are_reported(self):
        for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX"):
            self.assert_one(SPDX + f"// {word}: later\n", 2, word)
        self.assertEqual(list(check_text.problems_of(SPDX + 'mkstemp("aXXXXXX");\n')), [])

    def test_a_missing_last_line_break_is_reported(self):
        self.assert_one(SPDX + "int a;", 2, "line break")

    def test_scripts_build_files_and_dot_files_are_read_too(self):
        files = dict.fromkeys(("run", "meson.build", "bench/a.py", "src/berth.map", ".ci/run"), "")
        with Checkout(files) as root:
            (root / "bench/notes.md").write_text("no code\n", encoding="utf-8")
            (root / "bench/go").write_text("#!/bin/sh\n", encoding="utf-8")
            names = [source_tree.relative(path, root) for path in source_tree.code_files(root)]
            self.assertEqual(sorted(names), sorted([*files, "bench/go"]))
            self.assertEqual([file for file, _, _ in check_text.problems(root)], ["bench/go"])


class SymbolTest(unittest.TestCase):
    TABLE = """
libberth.so.p/member.cpp.o:
                 U memcpy
0000000000001000 T berth::Device::parse(std::basic_string_view<char>)@@BERTH_0.1
0000000000002000 V typeinfo name for berth::Error@@BERTH_0.1
0000000000003000 T berth_runtime_create@@BERTH_0.1
0000000000000000 A BERTH_0.1
"""

    def names(self, extra=""):
        return list(check_symbols.symbol_names(self.TABLE + extra))

    def test_the_names_of_berth_pass(self):
        self.assertEqual(list(check_symbols.export_problems(self.names()[1:])), [])
        self.assertEqual(list(check_symbols.cuda_problems(self.names())), [])

    def test_a_foreign_export_is_reported(self):
        for name in ("fmt::v9::vformat()", "typeinfo for fmt::error", "berthing", "std::berth::x"):
            extra = f"0000000000004000 W {name}@@BERTH_0.1\n"
            found = list(check_symbols.export_problems(self.names(extra)[1:]))
            self.assertEqual([found_name for found_name, _ in found], [name])

    def test_other_exports_are_named(self):
        names = ["berth_x", "InitializeInjectionNvtx2"]
        self.assertEqual(len(list(check_symbols.export_problems(names))), 1)
        self.assertEqual(list(check_symbols.export_problems(names, names[1:])), [])

    def test_an_exported_private_part_is_reported(self):
        for name in (
            "berth::Copier::Impl::start()",
            "berth::Transfer berth::Copier::Impl::run<1>()",
            "vtable for berth::StreamPool::State",
        ):
            extra = f"0000000000004000 W {name}@@BERTH_0.1\n"
            found = list(check_symbols.export_problems(self.names(extra)[1:]))
            self.assertEqual([found_name for found_name, _ in found], [name])
        extra = "0000000000004000 T berth::Graph::Graph(berth::Copier::Impl*)@@BERTH_0.1\n"
        self.assertEqual(list(check_symbols.export_problems(self.names(extra)[1:])), [])

    def test_a_library_that_exports_nothing_is_reported(self):
        self.assertEqual(len(list(check_symbols.export_problems(["BERTH_0.1"]))), 1)
        self.assertEqual(len(list(check_symbols.export_problems(["BERTH_SIM_0.1"]))), 1)

    def test_a_look_alike_exports_the_names_of_nvidia_alone(self):
        self.assertEqual(list(check_symbols.lookalike_problems(["cuInit", "nvmlInit_v2"])), [])
        found = list(check_symbols.lookalike_problems(["cuInit", "berth_sim_cuInit"]))
        self.assertEqual([name for name, _ in found], ["berth_sim_cuInit"])
        self.assertEqual(len(list(check_symbols.lookalike_problems([]))), 1)

    def test_a_name_of_cuda_is_reported_whether_defined_or_wanted(self):
        for line in (
            "0000000000004000 T cuInit",
            " " * 17 + "U nvmlInit_v2",
            " " * 17 + "U cudaFree",
        ):
            found = list(check_symbols.cuda_problems(self.names(line + "\n")))
            self.assertEqual([name for name, _ in found], [line.split()[-1]])

    def test_a_linked_driver_is_reported(self):
        text = """
 0x0000000000000001 (NEEDED)             Shared library: [libstdc++.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libcuda.so.1]
"""
        libraries = check_symbols.linked_libraries(text)
        self.assertEqual(libraries, ["libstdc++.so.6", "libcuda.so.1"])
        found = list(check_symbols.link_problems(libraries))
        self.assertEqual([name for name, _ in found], ["libcuda.so.1"])

    def test_the_embedded_library_needs_little(self):
        needed = ["libfmt.so.9", "libstdc++.so.6", "ld-linux-x86-64.so.2"]
        self.assertEqual(list(check_symbols.embedded_problems(needed)), [])
        found = list(check_symbols.embedded_problems([*needed, "libz.so.1"]))
        self.assertEqual([name for name, _ in found], ["libz.so.1"])


PROGRAM = """
  Type:                              DYN (Position-Independent Executable file)
  GNU_STACK      0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x000000 RW  0x10
  LOAD           0x001000 0x0000000000001000 0x0000000000001000 0x002000 0x002000 R E 0x1000
  GNU_RELRO      0x15bfc8 0x000000000015cfc8 0x000000000015cfc8 0x000008 0x000008 R   0x1
 0x000000000000001e (FLAGS)              BIND_NOW
"""

THREADS = """
  TLS            0x15bfc8 0x000000000015cfc8 0x000000000015cfc8 0x000008 0x000090 R   0x8
 0x000000000000001e (FLAGS)              BIND_NOW STATIC_TLS
"""

WANTED = """
     0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT  UND
     1: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND __gmon_start__
     2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __stack_chk_fail@GLIBC_2.4 (3)
     3: 0000000000001000     9 FUNC    GLOBAL DEFAULT    9 berth_version@@BERTH_0.1
"""


class HardeningTest(unittest.TestCase):
    def test_a_hardened_program_passes(self):
        self.assertEqual(list(check_hardening.linked_problems(PROGRAM)), [])

    def test_each_missing_measure_is_reported(self):
        for hardened, weak, word in (
            ("DYN", "EXEC", "fixed position"),
            ("BIND_NOW", "SYMBOLIC", "lazy binding"),
            ("GNU_RELRO", "LOAD", "writable relocations"),
            ("BIND_NOW", "TEXTREL BIND_NOW", "relocations of code"),
            ("0x000000 RW  0x10", "0x000000 RWE 0x10", "writable and executable"),
        ):
            with self.subTest(word):
                found = list(check_hardening.linked_problems(PROGRAM.replace(hardened, weak)))
                self.assertEqual(len(found), 1, found)
                self.assertIn(word, found[0])

    def test_wanted_symbols_are_those_of_other_files(self):
        self.assertEqual(list(check_hardening.wanted_symbols(WANTED)), ["__stack_chk_fail"])

    def test_unprotected_code_is_reported(self):
        fine = ["memcpy", "__memcpy_chk", "__stack_chk_fail"]
        self.assertEqual(list(check_hardening.compiled_problems(fine)), [])
        self.assertEqual(list(check_hardening.compiled_problems(["berth_sim_cuInit"])), [])
        for symbols, word in ((fine[:2], "stack protector"), (fine[:1] + fine[2:], "fortified")):
            found = list(check_hardening.compiled_problems(symbols))
            self.assertEqual(len(found), 1, found)
            self.assertIn(word, found[0])

    def test_what_libraries_keep_for_a_thread_is_bounded_together(self):
        static = check_hardening.static_thread_bytes(THREADS)
        self.assertEqual(static, 0x90)
        self.assertEqual(check_hardening.static_thread_bytes(THREADS.replace("STATIC_", "")), 0)
        self.assertEqual(list(check_hardening.thread_problems({"a.so": 200, "b.so": 56})), [])
        found = list(check_hardening.thread_problems({"a.so": 200, "b.so": 57, "c.so": 0}))
        self.assertEqual(len(found), 1)
        self.assertIn("257 B for each thread (a.so 200, b.so 57)", found[0])


if __name__ == "__main__":
    unittest.main()
