"""The rules of ``python -m tools.language`` find faults in docstrings and pages, and skip code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.language import faults, files

PAGE = """# It is a heading

A run ends. It has
two lines. The word `told` is code, and [it](it.md) is a link.

- They are items of a list.

```python
# It was told
```

| That | is a table |
|---|---|
| a cell | the clock was told the time |
"""
MODULE = '''"""A module. It has a docstring."""

text = "It is no docstring."


def run() -> None:
    """Run.

    ======  ======
    told    a name
    ======  ======

    The pacer starts anew.  That is a pronoun, e.g. this one.
    """
'''


def found(path: Path, text: str) -> list[tuple[int, str]]:
    path.write_text(text, "utf-8")
    return [(line, sentence) for line, sentence, _ in faults(path)]


def test_a_page(tmp_path: Path) -> None:
    assert found(tmp_path / "page.md", PAGE) == [
        (1, "It is a heading"),
        (3, "It has two lines."),
        (6, "They are items of a list."),
        (12, "That |"),
        (14, "the clock was told the time |"),
    ]


def test_docstrings_of_a_module(tmp_path: Path) -> None:
    assert found(tmp_path / "module.py", MODULE) == [
        (1, "It has a docstring."),
        (13, "The pacer starts anew."),
        (13, "That is a pronoun, e.g."),
        (13, "That is a pronoun, e.g."),
    ]


@pytest.mark.parametrize("part", ["rtsim/core/tag.py", "hitl/plants.py", "docs/sil.md"])
def test_the_files_that_are_checked(part: str) -> None:
    assert any(path.as_posix().endswith(part) for path in files())
