"""Check the C code in an interface file by its text, before a compiler reads it."""

from __future__ import annotations

import re

_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
_PAIRS = {")": "(", "]": "[", "}": "{"}
KEYWORDS = frozenset((
    "NULL", "_Alignas", "_Alignof", "_Atomic", "_Bool", "_Complex", "_Generic", "_Imaginary",
    "_Noreturn", "_Static_assert", "_Thread_local", "asm", "auto", "bool", "break", "case",
    "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "false",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
    "short", "signed", "sizeof", "static", "struct", "switch", "true", "typedef", "typeof",
    "union", "unsigned", "void", "volatile", "while",
))  # fmt: skip
"""Words that cannot be the name of a variable in C."""


def fault_of_name(name: str) -> str:
    """Return why ``name`` cannot be the name of a variable in C; "" if it can."""
    if name in KEYWORDS:
        return f"{name} is a keyword of C"
    if name.lower().startswith("rtsim_"):
        return f"{name}: names that begin with rtsim_ are reserved for the generated C"
    return ""


def fault_of_lvalue(text: str) -> str:
    """Return why ``text`` cannot be an lvalue in C; "" if it may be one."""
    if ";" in _LITERAL.sub('""', text):
        return "it contains a ';', which ends a statement"
    if "\n" in text:
        return "it has more than one line"
    return _fault(text)


def fault_of_statement(text: str) -> str:
    """Return why ``text`` cannot be a statement in C; "" if it may be one."""
    if re.search(r"\breturn\b", _LITERAL.sub('""', text)):
        return "'return' would leave the generated function before it has read the outputs"
    return _fault(text)


def _fault(text: str) -> str:
    bare = _LITERAL.sub('""', text)
    if re.search(r"//|/\*|\*/", bare):
        return "it contains a comment of C; write a comment of TOML instead, after #"
    if "#" in bare:
        return "it contains a '#'; move the directive to a header"
    opened: list[str] = []
    for letter in bare:
        if letter in "([{":
            opened.append(letter)
        elif letter in _PAIRS and (not opened or opened.pop() != _PAIRS[letter]):
            return f"{letter!r} closes no bracket"
    return f"{opened[-1]!r} is never closed" if opened else ""
