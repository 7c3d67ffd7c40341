"""``tools/marked.py``: files without the wanted mark are not imported, and none is missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.marked import can_have, wanted


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("realtime and not full and not system and not long", {"realtime"}),
        ("system and realtime and not full", {"system", "realtime"}),
        ("not realtime and not full and not system", set()),
        ("realtime or live", set()),
        ("not (realtime and long)", set()),
        ("", set()),
    ],
)
def test_marks_without_which_no_test_is_run(expression: str, marks: set[str]) -> None:
    assert wanted(expression) == marks


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("@pytest.mark.realtime\ndef test_it(): ...", {"realtime"}),
        ("pytestmark = [pytest.mark.realtime, pytest.mark.system('xvfb')]", {"realtime", "system"}),
        ("from c_parts import with_gcc", {"system"}),
        ("from emulated_board_parts import on_each", {"system"}),
        ("<!-- system: gcc -->", {"system"}),
        ("def test_a_system_in_realtime(): ...", set()),
    ],
)
def test_files_that_can_have_a_mark(tmp_path: Path, text: str, marks: set[str]) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(text)
    assert {mark for mark in ("realtime", "system") if can_have(path, mark)} == marks
