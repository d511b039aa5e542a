# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: errors name the argument and what is accepted, and ctypes truncates none."""

from __future__ import annotations

import math
import operator
import typing

from berth import _abi, errors

_Kind = typing.TypeVar("_Kind")

#: The bounds of C's int.
INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1


def refuse(value: object, name: str, accepted: str) -> typing.NoReturn:
    raise TypeError(f'"{name}" is of type {type(value).__name__}; accepted: {accepted}')


def checked(value: object, kind: type[_Kind], name: str, accepted: str) -> _Kind:
    """Checks the type of an argument."""
    if not isinstance(value, kind):
        refuse(value, name, accepted)
    return value


def checked_flag(value: object, name: str) -> bool:
    """Checks a bool: other values are mistakes, such as "no"."""
    return checked(value, bool, name, "a bool")


def checked_callable(value: object, name: str) -> None:
    """Checks a function of the program; None: there is none."""
    if value is not None and not callable(value):
        refuse(value, name, "a function, or None")


def checked_integer(value: object, name: str, least: int, most: int) -> int:
    """Checks an integer, which ctypes would truncate."""
    try:
        number = operator.index(typing.cast(typing.SupportsIndex, value))
    except TypeError:
        refuse(value, name, "an int")
    if not least <= number <= most:
        raise errors.InvalidArgument(f'"{name}" is {number}; accepted: {least} to {most}')
    return number


def checked_size(value: object, name: str) -> int:
    """Checks a number of bytes, or an address."""
    return checked_integer(value, name, 0, _abi.NO_LIMIT)


def checked_time(value: object, name: str, units_in_second: int) -> int:
    """Checks a number of seconds; returns it in the unit."""
    try:
        seconds = float(typing.cast(typing.SupportsFloat, value))
    except (TypeError, ValueError):
        refuse(value, name, "a number of seconds")
    units = seconds * units_in_second
    if not 0 <= units <= _abi.NO_LIMIT or math.isnan(units):
        most = _abi.NO_LIMIT // units_in_second
        raise errors.InvalidArgument(f'"{name}" is {seconds} seconds; accepted: 0 to {most}')
    return min(round(units), _abi.NO_LIMIT)


def checked_text(value: object, name: str) -> bytes:
    """Checks and encodes text for C, where a zero ends it."""
    try:
        text = checked(value, str, name, "a str").encode()
    except UnicodeEncodeError:
        raise errors.InvalidArgument(f'"{name}" is no text of Unicode: {value!r}') from None
    if b"\0" in text:
        raise errors.InvalidArgument(f'"{name}" contains a zero character: {value!r}')
    return text
