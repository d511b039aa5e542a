# SPDX-License-Identifier: Apache-2.0
"""What the public C++ headers declare: types, and functions of each type and of the namespace."""
import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DETAIL = re.compile(r"^namespace detail \{.*?^\}  // namespace detail$", re.DOTALL | re.MULTILINE)
_TYPE = re.compile(
    r"^(?P<kind>class|struct|enum class|enum) (?:\[\[nodiscard\]\] )?(?:BERTH_API )?(?P<name>\w+)\b"
    r"(?P<rest>[^;{]*)\{",
    re.MULTILINE,
)
_ALIAS = re.compile(r"^using (\w+) =", re.MULTILINE)


def code_of(text):
    """The header without comments, and without what is nobody's business."""
    return _COMMENT.sub("", _DETAIL.sub("", text))


def types_of(text):
    """Public types at namespace scope, in their order."""
    code = code_of(text)
    names = [match["name"] for match in _TYPE.finditer(code) if match["name"] != "std"]
    return names + _ALIAS.findall(code)
