"""The rules of ``python -m tools.language`` find faults in docstrings and pages, and skip code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import language
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


IN_PAGE = [
    (1, "It is a heading"),
    (3, "It has two lines."),
    (6, "They are items of a list."),
    (12, "That |"),
    (14, "the clock was told the time |"),
]
IN_MODULE = [
    (1, "It has a docstring."),
    (13, "The pacer starts anew."),
    (13, "That is a pronoun, e.g."),
    (13, "That is a pronoun, e.g."),  # two rules
]


@pytest.mark.parametrize(
    ("name", "text", "expected"), [("page.md", PAGE, IN_PAGE), ("module.py", MODULE, IN_MODULE)]
)
def test_sentences_that_break_a_rule(
    tmp_path: Path, name: str, text: str, expected: list[tuple[int, str]]
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert [(line, sentence) for line, sentence, _ in faults(tmp_path / name)] == expected


@pytest.mark.parametrize(("text", "status"), [("A run ends.", 0), ("It ends.", 1)])
def test_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, status: int
) -> None:
    (tmp_path / "page.md").write_text(text, "utf-8")
    monkeypatch.setattr(language, "ROOT", tmp_path)
    monkeypatch.setattr(language, "files", lambda: [tmp_path / "page.md"])
    with pytest.raises(SystemExit) as ended:
        language.main()
    assert ended.value.code == status


@pytest.mark.parametrize("part", ["rtsim/core/tag.py", "hitl/plants.py", "docs/sil.md"])
def test_the_files_that_are_checked(part: str) -> None:
    assert any(path.as_posix().endswith(part) for path in files())
