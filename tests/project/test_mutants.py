"""``make mutants``: which changes are tried, how one is told again, and what counts."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tools.mutants.__main__ import _named
from tools.mutants.choosing import Change, chosen, silent, wanted
from tools.mutants.judging import Mutant, Score, Tables, mutant, of_diff, read, rows, stale
from tools.mutants.running import TIMEOUT, passes

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """\
from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from x import (1 | 2)

limit: int | None = 1 + 2


def f(a: int | None = 3, *b: int | str) -> int | None:
    c: int | str = a | 4
    return c + a
""".replace("from x import (1 | 2)", "print(1 | 2)")
DIFF = """\
--- mutation diff ---
--- a/rtsim/bus.py
+++ b/rtsim/bus.py
@@ -1,3 +1,3 @@
 def f():
-    return  x[1:] - 1
+    return  x[ 2:] - 1
 # end
"""


# -- which changes


@pytest.mark.parametrize(
    ("operator", "is_tried"),
    [
        ("core/ReplaceBinaryOperator_Add_Sub", True),
        ("core/ReplaceBinaryOperator_Add_Mul", False),
        ("core/ReplaceComparisonOperator_Lt_LtE", True),
        ("core/ReplaceComparisonOperator_Lt_Is", False),
        ("core/ReplaceComparisonOperator_IsNot_Is", True),
        ("core/ReplaceUnaryOperator_Delete_Not", True),
        ("core/ReplaceUnaryOperator_USub_Invert", False),
        ("core/NumberReplacer", True),
        ("core/RemoveDecorator", False),  # without @property nothing works: it is always noticed
        ("other/NumberReplacer", True),
    ],
)
def test_kinds_of_changes(operator: str, is_tried: bool) -> None:
    assert wanted(operator) is is_tried


def change(line: int, text: str, operator: str = "core/NumberReplacer", k: int = 0) -> Change:
    place = (line, SOURCE.splitlines()[line - 1].index(text))
    return Change(f"{line}/{text}/{operator}/{k}", operator, "f", place, k)


def test_what_only_types_read_is_left_out() -> None:
    bit_or = "core/ReplaceBinaryOperator_BitOr_BitAnd"
    out = [change(5, "1"), change(7, "|", bit_or), change(10, "|", bit_or), change(11, "|", bit_or)]
    kept = [change(7, "1"), change(10, "3"), change(11, "4")]
    assert chosen([*out, *kept], SOURCE, 1, 0) == kept
    assert len(silent(SOURCE)) == 6
    with pytest.raises(AssertionError):
        silent("x: int = 1")  # where annotations are evaluated, they count


def test_the_star_of_a_list_of_parameters_is_no_product() -> None:
    source = "from __future__ import annotations\n\ndef f(a, *, b):\n    return a * b\n"
    product = "core/ReplaceBinaryOperator_Mul_Div"
    star, times = (Change("", product, "f", place, 0) for place in ((3, 9), (4, 13)))
    assert chosen([star, times], source, 1, 0) == [times]


def test_a_sample_is_drawn_by_what_a_change_is() -> None:
    changes = [change(7, "1", k=k) for k in range(600)]
    tenth, fifth = chosen(changes, SOURCE, 10, 0), chosen(changes, SOURCE, 5, 0)
    assert 35 < len(tenth) < 90
    assert set(tenth) < set(fifth), "more of them are the same and more"
    assert chosen(reversed(changes), SOURCE, 10, 0) == tenth
    assert chosen(changes, SOURCE, 10, 1) != tenth
    below = [c._replace(place=(c.place[0] + 2, c.place[1])) for c in changes]
    moved = SOURCE.replace("limit", "a = b\n\nlimit")
    assert [c.job for c in chosen(below, moved, 10, 0)] == [c.job for c in tenth]


# -- what came of them


def test_a_change_is_told_by_its_lines_and_not_by_their_number() -> None:
    found = of_diff("rtsim/components/bus.py", "f", DIFF)
    assert found == mutant("rtsim/components/bus.py", "f", "return x[1:] - 1", "return x[ 2:] - 1")
    assert of_diff("rtsim/components/bus.py", "f", DIFF.replace("@@ -1,3", "@@ -91,3")) == found
    assert "in f:\n    - return x[1:] - 1\n    + return x[ 2:] - 1" in found.told
    assert "in the module:" in found._replace(within="").told


def table(*equivalent: Mutant) -> Tables:
    return Tables({}, dict.fromkeys(equivalent, "because"))


def test_equivalent_ones_do_not_count_and_are_known_by_their_lines() -> None:
    found = of_diff("rtsim/components/bus.py", "f", DIFF)
    known = mutant("rtsim/components/bus.py", "f", "return x[1:]-1", "return x[2:] - 1")
    for other in (
        known._replace(module="rtsim/core/tag.py"),
        known._replace(within="g"),
        known._replace(now="return x[3:] - 1"),
    ):
        score = Score("rtsim/components/bus.py", 9, killed=3)
        score.count(found, table(other))
        assert (score.tried, score.share, score.survived) == (4, 0.75, [found])
    score = Score("rtsim/components/bus.py", 9, killed=3)
    score.count(found, table(known))
    assert (score.tried, score.share, score.equivalent) == (4, 1.0, [found])
    assert list(rows([score])) == [("rtsim/components/bus.py", "9", "4", "3", "0", "1", "100 %")]


def test_without_mutants_there_is_no_score() -> None:
    score = Score("m", 2)
    assert score.share is None
    assert list(rows([score])) == [("m", "2", "0", "0", "0", "0", "")]
    assert Score("m", 2, survived=[Mutant("m", "", "a", "b")]).share == 0.0


def test_an_equivalent_one_whose_source_is_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("x = (\n    1 +\n    2)\n")
    there, gone = Mutant("m.py", "", "x = ( 1 + 2)", "x"), Mutant("m.py", "", "x = 3", "x = 4")
    no_file = Mutant("n.py", "", "x", "y")
    assert stale(table(there, gone, no_file), tmp_path) == [gone, no_file]


# -- what is kept


def test_modules_and_tests_of_the_table_exist() -> None:
    tests = read().tests
    for module, files in tests.items():
        assert (ROOT / module).is_file(), module
        assert files
        for file in files:
            assert (ROOT / file).is_file(), file


def test_each_equivalent_one_is_of_the_source_and_has_a_reason() -> None:
    found = read()
    assert stale(found, ROOT) == []
    for one, why in found.equivalent.items():
        assert one.module in found.tests
        assert len(why) > 15, one.told
        assert one.was != one.now


def test_a_module_is_named_by_a_part_of_its_path() -> None:
    known = Tables(
        dict.fromkeys(("rtsim/components/bus.py", "rtsim/timing/bus.py", "rtsim/core/tag.py"), ()),
        {},
    )
    assert _named(("tag",), known) == ["rtsim/core/tag.py"]
    assert _named(("rtsim/components/bus.py", "tag"), known) == [
        "rtsim/components/bus.py",
        "rtsim/core/tag.py",
    ]
    assert _named(("bus", "rtsim/components/bus.py"), known) == [
        "rtsim/components/bus.py",
        "rtsim/timing/bus.py",
    ]
    assert _named((), known) == list(known.tests)
    with pytest.raises(click.UsageError, match=r"buss is not in tools/mutants/modules\.toml"):
        _named(("buss",), known)


# -- the processes of the tests

STARTS = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()"
FOREVER = "import threading; threading.Event().wait()"
WAITS = f"import os; print(os.getpid(), file=sys.stderr, flush=True); {FOREVER}"


def gone(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_what_tests_say_and_whether_they_pass() -> None:
    assert passes([sys.executable, "-c", "print('fine')"], 60) == (True, "fine\n")
    assert passes([sys.executable, "-c", "raise SystemExit(3)"], 60) == (False, "")
    printed = "import os; print(os.environ['PYTHONDONTWRITEBYTECODE'])"
    assert passes([sys.executable, "-c", printed], 60) == (True, "1\n")


def test_tests_that_do_not_end_are_ended() -> None:
    assert passes([sys.executable, "-c", FOREVER], 0.01) == (False, TIMEOUT)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen by /proc")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_who_is_ended_ends_the_tests_that_it_started_and_theirs(name: str, tmp_path: Path) -> None:
    waiting = tmp_path / "waiting"
    tests = f"import sys; sys.stderr = open({str(waiting)!r}, 'w'); {WAITS}"
    ours = (
        "import sys; from tools.mutants.running import *; as_interrupts();"
        f"passes([sys.executable, '-c', {STARTS!r}, {tests!r}], 60)"
    )
    own = subprocess.Popen(
        [sys.executable, "-c", ours],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    handle = -1
    try:
        while not (waiting.is_file() and waiting.read_text().strip()):
            assert own.poll() is None, own.communicate()
        process = int(waiting.read_text())
        assert not gone(process)
        handle = os.pidfd_open(process)  # readable once it has ended: SIGKILL takes a while
        own.send_signal(getattr(signal, name))
        own.communicate(timeout=30)
        assert select.select([handle], [], [], 30)[0]
        assert gone(process)
    finally:
        if handle >= 0:
            os.close(handle)
        own.kill()
