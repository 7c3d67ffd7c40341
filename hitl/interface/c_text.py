"""Pieces of C in an interface file: what their text alone tells, before a compiler sees them."""

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
"""Words that cannot name a variable of C."""


def fault_of_name(name: str) -> str:
    """Why a variable of C cannot be called ``name``; empty where it can."""
    if name in KEYWORDS:
        return f"{name} is a word of C"
    if name.lower().startswith("rtsim_"):
        return f"{name}: names that begin with rtsim_ are those of the generated unit"
    return ""


def fault_of_lvalue(text: str) -> str:
    """Why ``text`` is no lvalue; empty where it may be one."""
    if ";" in _LITERAL.sub('""', text):
        return "a ';' ends a statement"
    if "\n" in text:
        return "it goes over several lines"
    return _fault(text)


def fault_of_statement(text: str) -> str:
    """Why ``text`` is no statement; empty where it may be one."""
    if re.search(r"\breturn\b", _LITERAL.sub('""', text)):
        return "'return' would leave the generated function before it has read the outputs"
    return _fault(text)


def _fault(text: str) -> str:
    bare = _LITERAL.sub('""', text)
    if re.search(r"//|/\*|\*/", bare):
        return "it holds a comment of C; write it as one of TOML, after #"
    if "#" in bare:
        return "it holds a '#'; directives belong into a header"
    opened: list[str] = []
    for letter in bare:
        if letter in "([{":
            opened.append(letter)
        elif letter in _PAIRS and (not opened or opened.pop() != _PAIRS[letter]):
            return f"{letter!r} closes nothing"
    return f"{opened[-1]!r} is never closed" if opened else ""
