"""Turn an Arduino sketch (``.ino``) into C++, as Arduino's tools do.

A sketch needs no ``#include <Arduino.h>``, and its functions may be called before they are defined.
The C++ text gets both: the include at the top, and the prototypes before the first function.
``#line`` directives keep the sketch's line numbers in compiler errors.
"""

from __future__ import annotations

import re

_QUIET = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"\((?:.*?)\)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.S | re.M,
)
_HEAD = re.compile(
    r"(?P<head>(?:template\s*<[^{};]*>\s*)?[A-Za-z_][\w:<>,*&\s\[\]]*?[\s*&]"
    r"(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>[^{};]*)\)\s*)\Z",
    re.S,
)
_NO_FUNCTIONS = frozenset(("if", "while", "for", "switch", "else", "do", "return", "namespace"))


def cpp_text(text: str, name: str, header: str = "<Arduino.h>") -> str:
    """Return the C++ text of the sketch ``text``, which compiler errors call ``name``.

    ``header`` is the header that declares Arduino's functions.
    """
    found = _functions(text)
    first, prototypes = (found[0][0], [p for _, p in found]) if found else (0, [])
    line = text.count("\n", 0, first) + 1
    named = name.replace("\\", "\\\\").replace('"', '\\"')
    before, after = text[:first], text[first:]
    parts = [f"#include {header}", f'#line 1 "{named}"', before.removesuffix("\n")]
    if prototypes:
        parts += [*prototypes, f'#line {line} "{named}"']
    return "\n".join([*parts, after])


def _functions(text: str) -> list[tuple[int, str]]:
    """Return where each function at the top level begins (a whole line), and its prototype."""
    bare = _QUIET.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    out: list[tuple[int, str]] = []
    depth = begins = 0
    for at, letter in enumerate(bare):
        if letter == "{":
            if depth == 0 and (found := _HEAD.search(bare[begins:at])):
                start = begins + found.start("head")
                start += len(found["head"]) - len(found["head"].lstrip())
                if prototype := _prototype(found):
                    out.append((bare.rfind("\n", 0, start) + 1, prototype))
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                begins = at + 1
        elif letter == ";" and depth == 0:
            begins = at + 1
    return out


def _prototype(found: re.Match[str]) -> str:
    """Return the prototype of a function; "" for what must not be declared twice."""
    head = " ".join(found["head"].split())
    words = set(re.findall(r"\w+", head[: head.index("(")]))
    if words & _NO_FUNCTIONS or "::" in head[: head.index("(")] or "template" in words:
        return ""
    if "=" in found["parameters"]:  # a default argument may be given only once
        return ""
    return f"{head};"
