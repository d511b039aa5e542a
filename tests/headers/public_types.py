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


def aliases_of(text):
    """Those of the types that are another name of a type."""
    return _ALIAS.findall(code_of(text))


def _statements(code):
    """The statements of `code` at its own depth; a body in braces stands as {}."""
    text = ""
    depth = 0
    for character in code:
        if character in "{(":
            depth += character == "{"
            if depth == (character == "{"):
                text += character
            elif character == "(" and depth == 0:
                text += character
        elif character == "}":
            depth -= 1
            if depth == 0:
                text += character
                if not re.search(r"=\s*\{\}$|\w\s*\{\}$", text) or ")" in text:
                    yield text
                    text = ""
        elif depth == 0:
            if character == ";":
                yield text
                text = ""
            else:
                text += character
    if text.strip():
        yield text


_LABEL = re.compile(r"^\s*(public|private|protected):")
_IGNORED = re.compile(
    r"^\s*(friend|using|static_assert|template|namespace|extern|class|struct|enum)\b"
)


def _name_of(statement, type_name):
    """What the statement declares; None for what has no name of its own."""
    statement = re.sub(r"\[\[\w+\]\]", "", statement).replace("\n", " ").strip()
    if not statement or _IGNORED.match(statement) or "operator" in statement:
        return None
    while "<" in statement:
        shorter = re.sub(r"<[^<>]*>", "", statement)
        if shorter == statement:
            break
        statement = shorter
    declared = statement.split("=")[0]
    function = re.search(r"(~?\w+)\s*\(", declared)
    if function:
        name = function.group(1)
        return None if name.lstrip("~") == type_name else name
    field = re.search(r"(\w+)\s*(?:\{\})?\s*$", declared)
    return field.group(1) if field and not field.group(1)[0].isdigit() else None


def _body_at(code, start):
    depth = 0
    for index in range(start, len(code)):
        depth += (code[index] == "{") - (code[index] == "}")
        if depth == 0:
            return code[start + 1 : index]
    raise ValueError("a class does not end")


def members_of(text):
    """Pairs of a public type at namespace scope, and the names of its public functions and
    fields."""
    code = re.sub(r"^\s*#.*$", "", code_of(text), flags=re.MULTILINE)
    for match in _TYPE.finditer(code):
        if match["name"] == "std":
            continue
        names = []
        if not match["kind"].startswith("enum"):
            is_public = match["kind"] == "struct"
            for statement in _statements(_body_at(code, match.end() - 1)):
                while label := _LABEL.match(statement):
                    is_public = label.group(1) == "public"
                    statement = statement[label.end() :]
                name = _name_of(statement, match["name"]) if is_public else None
                if name and name not in names:
                    names.append(name)
        yield match["name"], names


def functions_of(text):
    """Functions at namespace scope."""
    code = re.sub(r"^\s*#.*$", "", code_of(text), flags=re.MULTILINE)
    code = re.sub(r"^(inline )?namespace [\w:]* ?\{", "", code, flags=re.MULTILINE)
    names = []
    for match in re.finditer(
        r"^(?:\[\[\w+\]\] )?(?:BERTH_API|constexpr|inline)\b[^;{(]*?\b(\w+)\(", code, re.MULTILINE
    ):
        if "operator" not in match.group(0) and match.group(1) not in names:
            names.append(match.group(1))
    return names
