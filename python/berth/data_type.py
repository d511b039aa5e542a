# SPDX-License-Identifier: Apache-2.0
"""Data types in numpy's notation and with DLPack's codes."""

from __future__ import annotations

import dataclasses
import re
import sys

from berth import errors

#: DLPack's codes, by the letter of numpy's type strings and by name.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAMES = {"int": "i", "uint": "u", "float": "f", "complex": "c", "bool": "b"}
_BFLOAT = 4
_BITS = {
    "i": (8, 16, 32, 64),
    "u": (8, 16, 32, 64),
    "f": (16, 32, 64),
    "c": (64, 128),
    "b": (8,),
}
_TYPE_STRING = re.compile(r"([<>|=]?)([iufcb])(\d+)")
_NAME = re.compile(r"(int|uint|float|complex)(\d+)")
#: The byte orders of type strings: that of this machine, and the other.
_OWN_ORDER, _SWAPPED = "<>" if sys.byteorder == "little" else "><"


@dataclasses.dataclass(frozen=True)
class DataType:
    """A type of elements."""

    code: int  #: DLPack's DLDataTypeCode
    bits: int

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def type_string(self) -> str:
        """The type string of numpy: `<f4`."""
        for letter, code in _CODES.items():
            if code == self.code:
                order = "|" if self.bits == 8 else _OWN_ORDER
                return f"{order}{letter}{self.bytes}"
        raise errors.NotSupported(f'numpy has no type string for "{self}"; use DLPack')

    def __str__(self) -> str:
        if self.code == _BFLOAT:
            return f"bfloat{self.bits}"
        if self.code == _CODES["b"]:
            return "bool"
        for name, letter in _NAMES.items():
            if self.code == _CODES[letter]:
                return f"{name}{self.bits}"
        return f"DLPack type {self.code} of {self.bits} bits"


def parse(text: str) -> DataType:
    """`f4`, `<f4` or `float32`; `bool` and `bfloat16` too."""
    if text == "bfloat16":
        return DataType(_BFLOAT, 16)
    if text == "bool":
        text = "b1"
    if match := _TYPE_STRING.fullmatch(text):
        order, letter, size = match.groups()
        bits = int(size) * 8
        if order != _SWAPPED and bits in _BITS[letter]:
            return DataType(_CODES[letter], bits)
    elif match := _NAME.fullmatch(text):
        letter, bits = _NAMES[match[1]], int(match[2])
        if bits in _BITS[letter]:
            return DataType(_CODES[letter], bits)
    raise errors.InvalidArgument(
        f'"{text}" is not a data type; accepted: native-order type strings of numpy '
        'such as "f4" or "<f4", names such as "float32", "bool", and "bfloat16"'
    )
