"""Check the language of docstrings and pages: ``python -m tools.language``.

Each rule is a pattern for a sentence and the reason against it (CONTRIBUTING.md, "How we write").
Code, tools, decision records and the changelog are not checked. The command prints ``file:line`` of
each sentence that breaks a rule, and exits with 1.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
RULES = {
    r"^(It|They|That|Them)\b(?![-`])": "begins with a pronoun; begin with its noun",
    r"(?<![-\w])(told|anew|whoever)(?![-\w])": "uses a word that readers stumble over",
    r"\b(e\.g\.|i\.e\.)": "uses a Latin abbreviation; write 'for example' or 'that is'",
}
_FENCE = re.compile(r"^\s*(```|~~~)")
_ITEM = re.compile(r"^\s*([-*|#>]|\d+\.)\s")
_CODE = re.compile(r"``[^`]*``|`[^`]*`|https?:\S+|\]\([^)]*\)|\[[^\]]*\]\(")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number, from 0, and the text of each sentence, with code replaced by ``X``."""
    paragraph: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate([*text.split("\n"), ""]):
        if _FENCE.match(line):
            fenced = not fenced
        begins = not line.strip() or _ITEM.match(line) or _FENCE.match(line)
        if begins and paragraph:
            if not any("====" in part for _, part in paragraph):  # a table
                yield from _split(paragraph)
            paragraph = []
        if line.strip() and not fenced and not _FENCE.match(line):
            paragraph.append((number, _ITEM.sub("", line).strip()))


def _split(paragraph: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    text = _CODE.sub(lambda m: re.sub(r"[^\n]", "X", m[0]), "\n".join(t for _, t in paragraph))
    start = 0
    for end in [*(m.end() for m in re.finditer(r"[.!?][)\"*]*\s+|\s\|\s", text)), len(text)]:
        if piece := text[start:end].strip():
            yield paragraph[text.count("\n", 0, start)][0], piece.replace("\n", " ")
        start = end


def faults(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, sentence and reason for each sentence of a file that breaks a rule."""
    text = path.read_text("utf-8")
    parts = [(1, text)]
    if path.suffix == ".py":
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
        parts = [(n.body[0].lineno, d) for n in nodes if (d := ast.get_docstring(n))]
    for first, part in parts:
        for line, sentence in sentences(part):
            for rule, reason in RULES.items():
                if re.search(rule, sentence):
                    yield first + line, sentence, reason


def files() -> list[Path]:
    """Return the Python files of rtsim and hitl, and the pages.

    The glossary and CONTRIBUTING.md quote words that the rules forbid.
    """
    code = [f for top in ("rtsim", "hitl") for f in (ROOT / top).rglob("*.py")]
    pages = [f for f in (ROOT / "docs").rglob("*.md") if "decisions" not in f.parts]
    return sorted([*code, *(f for f in pages if f.name != "glossary.md"), ROOT / "README.md"])


def main() -> None:
    """Print all faults; exit with 1 if there are any."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {reason}: {sentence}"
        for path in files()
        for line, sentence, reason in faults(path)
    ]
    print("\n".join([*found, f"{len(found)} sentences break a rule of tools/language.py"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
