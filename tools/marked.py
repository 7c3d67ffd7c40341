"""Which files can have tests with a mark: the others need not be imported to run those tests.

``make realtime`` runs some tens of tests, and importing all test files takes ten seconds.
``conftest.py`` asks this module; wherever all files are imported, it checks the answers.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

MARKS = ("realtime", "system")
HELPERS = Path(__file__).resolve().parents[1] / "tests" / "helpers"


def wanted(expression: str) -> set[str]:
    """The marks without which no test is run, by the expression of pytest's option ``-m``."""
    if re.search(r"\bor\b|[()]", expression):
        return set()
    return set(MARKS) & {part.strip() for part in expression.split(" and ")}


def can_have(path: Path, mark: str) -> bool:
    """Whether the text of a test file or of a page has the mark, or a name that stands for it."""
    return bool(_names(mark).search(path.read_text(encoding="utf-8")))


@cache
def _names(mark: str) -> re.Pattern[str]:
    """The mark itself, and names that helpers of the tests give to it, at first or second hand."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(HELPERS.glob("*.py")))
    names, new = [rf"<!-- {mark}: "], {rf"mark\.{mark}"}
    while new:
        known = "|".join(sorted(new))
        names += [rf"\b(?:{known})\b"]
        new = set(re.findall(rf"^(\w+) = .*\b(?:{known})\b", text, re.M))
    return re.compile("|".join(names))
