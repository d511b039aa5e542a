#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds berth._abi against the C headers: each struct, function, flag and list of counters.

abi_test.py HEADER_FOLDER
"""

import ctypes
import pathlib
import re
import sys
import unittest

from berth import _abi, errors

HEADERS = pathlib.Path(sys.argv.pop())
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("berth/*.h")))
CODE = re.sub(r"//[^\n]*|/\*.*?\*/", "", TEXT, flags=re.DOTALL)

STRUCTS = {
    "berth_device": _abi.Device,
    "berth_stream": _abi.Stream,
    "berth_event": _abi.Event,
    "berth_gauge": _abi.Gauge,
    "berth_runtime_options": _abi.RuntimeOptions,
    "berth_mapped_range": _abi.MappedRange,
    "berth_driver_info": _abi.DriverInfo,
    "berth_device_info": _abi.DeviceInfo,
    "berth_memory_info": _abi.MemoryInfo,
    "berth_memory_block": _abi.MemoryBlock,
    "berth_memory_properties": _abi.MemoryProperties,
    "berth_pinned_options": _abi.PinnedOptions,
    "berth_memory_pool_options": _abi.MemoryPoolOptions,
    "berth_memory_gauges": _abi.MemoryGauges,
    "berth_memory_totals": _abi.MemoryTotals,
}
CALLBACKS = {
    "berth_pressure_function": _abi.Pressure,
    "berth_report_function": _abi.Report,
    "berth_map_function": _abi.Map,
    "berth_unmap_function": _abi.Unmap,
}
VALUES = {
    "int": ctypes.c_int,
    "bool": ctypes.c_bool,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "berth_status": ctypes.c_int,
    "berth_severity": ctypes.c_int,
    "void": None,
    **CALLBACKS,
    **STRUCTS,
}


def type_of(text):
    """The ctypes type of a C type without the name that it declares."""
    text = text.replace("const ", "").replace("struct ", "").strip()
    name, stars = text.rstrip("* "), text.count("*")
    if stars == 0:
        return VALUES[name]
    if name == "char":
        # A text that the caller frees is an address: ctypes would lose it.
        return {1: ctypes.c_char_p, 2: "text"}[stars]
    if name in VALUES and VALUES[name] is not None and stars == 1:
        return ctypes.POINTER(VALUES[name])
    return {1: ctypes.c_void_p, 2: ctypes.POINTER(ctypes.c_void_p)}[stars]


def without_name(declaration):
    declaration = declaration.strip()
    return re.fullmatch(r"(.*?[\s*])\w+", declaration, re.DOTALL).group(1)


def is_same(declared, known):
    if declared == "text":
        return known in (ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_void_p))
    if declared is ctypes.c_char_p:
        return known in (ctypes.c_char_p, ctypes.c_void_p)
    return declared == known


def fields_of(struct):
    """All fields, those of the base first."""
    return [field for kind in reversed(struct.__mro__) for field in vars(kind).get("_fields_", [])]


class AbiTest(unittest.TestCase):
    def test_structs(self):
        for name, known in STRUCTS.items():
            match = re.search(rf"typedef struct {name} {{([^}}]*)}} {name};", CODE)
            with self.subTest(name):
                fields = []
                for line in match.group(1).split(";"):
                    expanded = re.match(r"\s*BERTH_MEMORY_(GAUGES|TOTALS)\(", line)
                    if expanded:
                        is_gauge = expanded.group(1) == "GAUGES"
                        kind = _abi.Gauge if is_gauge else ctypes.c_uint64
                        fields += [(field, kind) for field in self.counters(expanded.group(1))]
                    elif line.strip():
                        field = re.search(r"(\w+)\s*$", line).group(1)
                        fields.append((field, type_of(without_name(line))))
                known_fields = fields_of(known)
                self.assertEqual([field for field, _ in fields], [f[0] for f in known_fields])
                for (field, declared), (_, ours) in zip(fields, known_fields):
                    self.assertTrue(is_same(declared, ours), f"{name}.{field}: {declared}, {ours}")

    def counters(self, kind):
        text = re.search(rf"#define BERTH_MEMORY_{kind}\(X\)((?:.*\\\n)*.*)", TEXT).group(1)
        return re.findall(r"X\((\w+),", text)

    def test_counters(self):
        self.assertEqual(self.counters("GAUGES"), _abi.GAUGES)
        self.assertEqual(self.counters("TOTALS"), _abi.TOTALS)

    def test_functions(self):
        declared = {
            name: (result.strip(), parameters)
            for result, name, parameters in re.findall(
                r"BERTH_API\s+([\w\s]+?\s*\*?)\s*\b(berth_\w+)\(([^)]*)\);", CODE
            )
        }
        known = {
            **{name: (ctypes.c_int, types) for name, types in _abi.FUNCTIONS.items()},
            **_abi.OTHERS,
        }
        for name, (result, types) in known.items():
            with self.subTest(name):
                declared_result, parameters = declared[name]
                if name in _abi.FUNCTIONS:
                    self.assertEqual(declared_result, "berth_status")
                self.assertTrue(is_same(type_of(declared_result), result))
                parameters = [] if parameters == "void" else parameters.split(",")
                self.assertEqual(len(parameters), len(types))
                for parameter, ours in zip(parameters, types):
                    expected = type_of(without_name(parameter))
                    self.assertTrue(is_same(expected, ours), f"{parameter}: {expected}, {ours}")

    def test_callbacks(self):
        pattern = r"([\w\s]+?)\s*\(\*(\w+)\)\(([^)]*)\);"
        callbacks = re.findall(pattern, CODE)
        self.assertGreater(len(callbacks), len(CALLBACKS))
        for result, name, parameters in callbacks:
            with self.subTest(name):
                first, *rest = [parameter.strip() for parameter in parameters.split(",")]
                self.assertIn(first, ("void* user", "void* owner"))
                if name in CALLBACKS:
                    known = VALUES[name]
                    declared = [type_of(without_name(parameter)) for parameter in (first, *rest)]
                    self.assertEqual(type_of(result.split()[-1]), known._restype_)
                    self.assertEqual(len(declared), len(known._argtypes_))
                    for expected, ours in zip(declared, known._argtypes_):
                        self.assertTrue(is_same(expected, ours), f"{expected}, {ours}")

    def test_flags(self):
        for name in (
            "RUNTIME_NO_VIRTUAL_MEMORY",
            "RUNTIME_IGNORE_ENVIRONMENT",
            "MEMORY_POOL_FOR_GRAPHS",
            "PINNED_NO_WAIT",
        ):
            value = re.search(rf"#define BERTH_{name} UINT(?:32|64)_C\((\d+)\)", TEXT).group(1)
            self.assertEqual(getattr(_abi, name), int(value), name)
        for name in ("PINNED_PORTABLE", "PINNED_WRITE_COMBINED"):
            value = re.search(rf"BERTH_{name} = (\d+)", TEXT).group(1)
            self.assertEqual(getattr(_abi, name), int(value), name)

    def test_each_status_is_an_exception(self):
        declared = re.search(r"typedef enum berth_status {([^}]*)}", CODE).group(1)
        statuses = {
            int(number): name for name, number in re.findall(r"BERTH_(\w+) = (\d+),", declared)
        }
        self.assertEqual(statuses.pop(0), "OK")
        known = {
            number: re.sub(r"(?<!^)([A-Z])", r"_\1", error.__name__).upper().replace("_ERROR", "")
            for number, error in errors.BY_STATUS.items()
        }
        self.assertEqual(
            {number: name.replace("_ERROR", "") for number, name in statuses.items()}, known
        )


if __name__ == "__main__":
    unittest.main()
