"""Fault files and conditions: read, or refused with the place and what to write."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_parts import flown, in_words, ramp
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.plants import PlantFixture
from rtsim.core.errors import ScenarioError
from rtsim.engine.faults import Fault, FaultError, read_faults
from rtsim.engine.faults.description import KINDS, fault_of
from rtsim.engine.faults.kind import parse_condition
from rtsim.record.replay_comparison import compare_exact
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

GOOD = """\
# what goes wrong
[[fault]]
name = "off"
where = "controller.u"
kind = "offset"
amount = 10   # in the signal's unit
at = "1/3"
duration = 0.2

[[ fault ]]
name = "lost"
where = "controller"
kind = "drop"
probability = 0.25
seed = 7
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "faults.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file(tmp_path: Path) -> None:
    lost, off = read_faults(written(tmp_path, GOOD))
    assert (off.kind.name, off.where, dict(off.parameters)) == (
        "offset", "controller.u", {"amount": 10.0}
    )  # fmt: skip
    assert (off.at_ns, off.duration_ns, off.count, off.seed) == (
        333_333_333,
        200_000_000,
        None,
        None,
    )
    assert (lost.probability, lost.count, lost.seed) == (0.25, 1, 7)
    assert off.place.endswith("faults.toml:4"), "of its where"
    assert lost.place.endswith("faults.toml:12")


ONE = '[[fault]]\nname = "f"\nwhere = "controller.u"\nkind = "offset"\namount = 1.0\n'


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = = 1", 1, "not valid TOML"),
        ("x = [", 0, "not valid TOML"),
        ("", 1, "fault is missing; write a table [[fault]] for each fault"),
        ("[[faults]]\n", 1, "unknown key 'faults'; did you mean fault?"),
        ("[fault]\nname = 'f'\n", 1, "is not valid; write a table [[fault]] for each fault"),
        ("fault = [1]\n", 1, "fault: element 1, 1 is not valid (no table); write a table"),
        (ONE.replace('name = "f"\n', ""), 1, "name is missing"),
        (ONE.replace('"f"', '"2f"'), 2, "name '2f': write a letter"),
        (ONE.replace('"f"', "3"), 2, "name = 3 is not valid; write a unique name, such as"),
        (ONE + ONE, 7, "another fault has the same name"),
        (ONE.replace("offset", "ofset"), 4, "unknown kind 'ofset'; did you mean offset"),
        (ONE.replace("amount = 1.0\n", ""), 4, "offset needs amount: a finite number"),
        (ONE.replace("1.0", "true"), 5, "amount = True is not valid; write a finite number"),
        (ONE.replace("1.0", "nan"), 5, "amount = nan is not valid; write a finite number"),
        (ONE.replace("1.0", "inf"), 5, "amount = inf"),
        (ONE.replace("1.0", "'much'"), 5, "amount = 'much'"),
        (ONE.replace("1.0", "[1]"), 5, "amount = [1]"),
        (ONE.replace("amount", "ammount"), 5, "unknown key 'ammount' in offset; did you mean"),
        (ONE + "gap = 0.1\n", 6, "unknown key 'gap' in offset"),
        (ONE.replace("controller.u", "controller"), 3, "offset acts on component.signal"),
        (ONE.replace("controller.u", "a b.c"), 3, "offset acts on component.signal"),
        (ONE + "at = -1\n", 6, "at = -1 is not valid; write seconds >= 0, such as"),
        (ONE + "at = 'soon'\n", 6, "at = 'soon'"),
        (ONE + "at = true\n", 6, "at = True"),
        (ONE + "at = 1e30\n", 6, "at = 1e+30"),
        (ONE + "at = nan\n", 6, "at = nan"),
        (ONE + "at = 1e400\n", 6, "at = inf"),
        (ONE + "duration = 0\n", 6, "duration = 0 is not valid; write seconds > 0"),
        (ONE + "duration = 1\ncount = 2\n", 7, "both duration and count are given"),
        (ONE + "count = 0\n", 6, "count = 0 is not valid; write a whole number >= 1"),
        (ONE + "count = 1.5\n", 6, "count = 1.5"),
        (ONE + "every = 1\n", 6, "a fault with every also needs duration"),
        (ONE + "every = 0\ncount = 1\n", 6, "every = 0"),
        (ONE + "probability = 1.5\n", 6, "probability = 1.5 is not valid; write a number"),
        (ONE + "probability = nan\n", 6, "probability = nan"),
        (ONE + "probability = 0.1\nwhen = 'a.b > 1'\n", 7, "probability and when are all triggers"),
        (ONE + "at = 2\nuntil = 1\n", 7, "until is not after at"),
        (ONE + "seed = -1\n", 6, "seed = -1 is not valid; write a whole number >= 0"),
        (ONE + "seed = 99999999999999999999999\n", 6, "seed = 99999"),
        (ONE + "seed = 0x" + "F" * 9999 + "\n", 6, "seed = a very large number has 39996 bits"),
        (ONE + "at = 0x" + "F" * 9999 + "\n", 6, "at = a very large number"),
        (ONE.replace("1.0", "1" + "0" * 999), 5, "amount = 1000"),
        (ONE.replace("1.0", "1" * 9999), 0, "not valid TOML"),
        (ONE + "x = " + "[" * 9999, 0, "not valid TOML"),
        (ONE + "when = 'f16.alpha'\n", 6, "'f16.alpha' is not a comparison; write"),
        (ONE + "when = '1 > 2'\n", 6, "compares two numbers"),
        (ONE + "when = '__import__(1) > 2'\n", 6, "'__import__(1)' is neither a number nor"),
        (ONE + "when = 'a.b > nan'\n", 6, "'nan' is neither"),
        (ONE + "when = 'a.b > 1 or a.b < 0'\n", 6, "is not a comparison"),
        (ONE + "when = 3\n", 6, "when = 3 is not valid; write a condition, such as when ="),
        (ONE + "period = 0\n", 6, "period = 0"),
        (ONE.replace("offset", "stuck").replace("amount", "value") + "count = -1", 6, "count = -1"),
        (
            '[[fault]]\nname="f"\nwhere="a.u"\nkind="drop"\n', 3,
            "drop acts on the messages of a component: where = 'controller'",
        ),
        (
            '[[fault]]\nname="f"\nwhere="a.to_bord"\nkind="silence"\n', 3,
            "unknown end 'to_bord' in where = 'a.to_bord'; did you mean to_board, from_board?",
        ),
        ('[[fault]]\nname="f"\nwhere="a.to_board"\nkind="board_reset"\n', 3, "did you mean board?"),
        (
            '[[fault]]\nname="f"\nwhere="a.board"\nkind="board_reset"\ncount=2\n', 5,
            "board_reset takes no count: it acts only once",
        ),
        ('[[fault]]\nname="f"\nwhere="a"\nkind="burst"\nlength=0\n', 5, "length = 0 is not valid"),
        ('[[fault]]\nname="f"\nwhere="a"\nkind="burst"\nlength=2\ncount=3\n', 6, "length sets how"),
        ('[[fault]]\nname="f"\nwhere="a"\nkind="delay"\ndelay=-1\n', 5, "delay = -1 is not valid"),
        ('[[fault]]\nname="f"\nwhere="a.to_board"\nkind="bit_flip"\nbit=8\n', 5, "from 0 to 7"),
        ('[[fault]]\nname="f"\nwhere="a.to_board"\nkind="slow_line"\nbaud=0\n', 5, "baud = 0"),
        ('[[fault]]\nname="f"\nwhere="a.u"\nkind="quantised"\nstep=0\n', 5, "write a number > 0"),
        ('[[fault]]\nname="f"\nwhere="a.u"\nkind="noise"\ndeviation=-1\n', 5, "number >= 0"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_error_with_its_place(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FaultError) as caught:
        read_faults(path)
    place = f"{path}:{line}: " if line else f"{path}: "
    assert str(caught.value).startswith(place), caught.value
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (1 << 20) + b"\n")
    for path, says in (
        (tmp_path / "none.toml", "No such file.*give the path of a fault file"),
        (tmp_path, "give the path of a fault file"),
        (binary, "not UTF-8 text at byte 0"),
        (large, "more than 1048576 bytes"),
    ):
        with pytest.raises(FaultError, match=f"{re.escape(str(path))}: .*{says}"):
            read_faults(path)


def test_lines_in_other_ways_of_writing_it(tmp_path: Path) -> None:
    """An array of inline tables has the line of its element; a header in a text is none."""
    inline = "fault = [{name='f', where='a.u', kind='offset'}]\n"
    with pytest.raises(FaultError, match=r"faults.toml:1: offset needs amount"):
        read_faults(written(tmp_path, inline))
    hidden = ONE.replace('"f"', '"f" # [[fault]]') + 'when = """\n[[fault]]"""\n'
    with pytest.raises(FaultError, match=r"faults.toml:6: '\[\[fault\]\]' is not a comparison"):
        read_faults(written(tmp_path, hidden))


def test_faults_from_python_name_themselves() -> None:
    scenario = ramp()
    with pytest.raises(FaultError, match="fault off: unknown kind 'ofset'"):
        scenario.faults({"name": "off", "where": "controller.u", "kind": "ofset"})
    with pytest.raises(FaultError, match="fault 1: name is missing"):
        scenario.faults({})
    with pytest.raises(FaultError, match="3 is not a fault"):
        scenario.faults(3)  # type: ignore[arg-type]
    scenario.faults({"name": "a", "where": "controller", "kind": "drop"})
    with pytest.raises(FaultError, match="fault a: another fault has the same name"):
        scenario.faults({"name": "a", "where": "controller", "kind": "drop"})


def test_a_file_and_its_entries_are_the_same_faults(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    by_file = flown(ramp(), path)
    by_entries = flown(ramp(), *(fault.describe() for fault in read_faults(path)))
    assert compare_exact(by_file, by_entries) is None
    assert in_words(by_file) == in_words(by_entries)


def test_a_copied_scenario_has_its_own_faults() -> None:
    scenario = ramp()
    other = scenario.copy()
    other.faults({"name": "a", "where": "controller", "kind": "drop"})
    assert scenario.describe().get("faults") is None
    assert len(other.describe()["faults"]) == 1


_VALUES = st.one_of(
    st.floats(allow_nan=True), st.integers(-3, 2**70), st.booleans(), st.text(max_size=8),
    st.lists(st.integers(), max_size=2), st.sampled_from(["ramp.x > 1", "controller.u", "1/3"]),
)  # fmt: skip
_KEYS = st.sampled_from(
    sorted({p.name for k in KINDS.values() for p in k.parameters}
           | {"at", "every", "probability", "when", "until", "duration", "count", "seed", "period"})
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.dictionaries(_KEYS, _VALUES, max_size=5))
def test_any_entries_are_a_fault_or_an_error(kind: str, entries: dict[str, Any]) -> None:
    level = KINDS[kind].level
    where = {
        "signal": "controller.u", "message": "controller", "line": "controller.to_board",
        "loop": "loop.propagate" if kind == "slow_job" else "loop",
    }[level]  # fmt: skip
    given_entries = {"name": "f", "where": where, "kind": kind, **entries}
    try:
        fault = fault_of(given_entries)
    except FaultError:
        return
    assert fault_of(fault.describe()) == fault
    assert all(math.isfinite(v) for v in fault.parameters.values())


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_file_or_one_error(tmp_path_factory: Any, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"any-{abs(hash(text)) % 7}.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(FaultError):
        read_faults(path)


@pytest.mark.parametrize(
    ("text", "true_at"),
    [
        ("ramp.x > 0.5", (0.6, 1.0)),
        ("ramp.x>=.5", (0.5, 1.0)),
        ("0.5 < ramp.x", (0.6, 1.0)),
        ("ramp.x < 5e-1 and ramp.x != 0", (0.1, 0.4)),
        ("ramp.u == 1", (0.0, 1.0)),
        ("ramp.x <= -1", ()),
        ("ramp.x > ramp.u", ()),
    ],
)
def test_conditions(text: str, true_at: tuple[float, ...]) -> None:
    system = ramp().build()
    port = system.ports["ramp"]
    holds = parse_condition(text).bind(system.ports)
    found = []
    for k in range(11):
        port.value[0], port.value[1] = k / 10, 1.0
        if holds():
            found.append(k / 10)
    assert (found[0], found[-1]) == true_at if true_at else not found
    port.value[:] = math.nan
    assert not holds()


def test_a_long_condition_is_refused() -> None:
    with pytest.raises(ScenarioError, match="at most 500"):
        parse_condition("a.b > 1 and " * 100)


def test_flown_by_the_fixtures(
    plant: Callable[..., PlantFixture], faults: Callable[..., tuple[Fault, ...]], tmp_path: Path
) -> None:
    """A file beside the test, or entries; the design flies as well as the C."""
    path = written(tmp_path, GOOD)
    flying = plant(made)
    recording = flying.fly(faults=faults(path))
    assert {e.source for e in recording.events} == {"off", "lost"}
    assert in_words(flying.fly(faults=path)) == in_words(recording)
    lost = {"name": "lost", "where": "controller", "kind": "drop", "at": 0.5, "count": 1}
    one = flying.fly(faults=faults(lost))
    assert [e.source for e in one.events] == ["lost"]
    assert in_words(flying.fly(faults=lost)) == in_words(one)
    assert not flying.fly().events
    assert compare_exact(flying.fly(), trace_of(ramp())) is None


def made() -> Scenario:
    return ramp()
