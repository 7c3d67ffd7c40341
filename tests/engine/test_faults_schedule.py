"""The schedule of faults by itself: when each is looked at, what is saved, and its conditions.

Fault files and conditions: read, or refused with the place and what to write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fault_parts import flown, in_words, ramp, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.plants import PlantFixture
from rtsim.components.ports import SignalPort
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Period, Tag
from rtsim.engine.faults import Fault, FaultError, read_faults
from rtsim.engine.faults.description import KINDS, fault_of
from rtsim.engine.faults.kind import Present, parse_condition
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.engine.faults.schedule import FIRST, FaultTask, Schedule
from rtsim.engine.system import System
from rtsim.record.events import Event
from rtsim.record.replay_comparison import compare_exact
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

MS = 1_000_000
TENTH = Period.of("0.1")


class Looked:
    """Stands for the wiring that a fault is looked at in, and for the plants behind it."""

    def __init__(self, *edges: int, **described: Any) -> None:
        entries = {"probability": None, "when": None, "count": None, "at_ns": None, **described}
        self.edges = edges
        self.looks = 0
        fault = SimpleNamespace(name="f", **entries)
        self.fault: Any = SimpleNamespace(
            fault=fault, changes_alone=False, activity=SimpleNamespace(next_edge=self.next_edge)
        )
        self.plant: Any = SimpleNamespace(stale=False, ns=0, target_ns=0)

    def next_edge(self, ns: int) -> int:
        return next((edge for edge in self.edges if edge > ns), 2**62)

    def look(self, fault: Any) -> None:
        assert fault is self.fault
        self.looks += 1

    def task(self) -> FaultTask:
        wiring: Any = self
        return FaultTask(self.fault, wiring, [self.plant], TENTH)


def react(task: FaultTask, ns: int) -> int:
    environment: Any = None
    task.react(Tag(ns), environment)
    return task.next_ns


def test_a_fault_that_only_begins_and_ends_is_looked_at_then() -> None:
    parts = Looked(300 * MS, 500 * MS, at_ns=300 * MS)
    task = parts.task()
    assert task.next_ns == 300 * MS
    assert react(task, 300 * MS) == 500 * MS
    assert parts.plant.stale
    assert react(task, 500 * MS) == 2**62
    assert parts.looks == 2


@pytest.mark.parametrize("at_ns", [0, None])
def test_one_that_begins_at_the_start_is_looked_at_there(at_ns: int | None) -> None:
    task = Looked(500 * MS, at_ns=at_ns).task()
    assert task.next_ns == 0
    assert react(task, 0) == 500 * MS


@pytest.mark.parametrize("what", ["probability", "when", "count"])
def test_one_that_is_drawn_asked_or_counted_is_looked_at_each_period(what: str) -> None:
    task = Looked(250 * MS, at_ns=50 * MS, **{what: 0}).task()
    assert task.next_ns == 50 * MS
    seen = [react(task, 50 * MS)]
    for _ in range(3):
        seen.append(react(task, seen[-1]))
    assert [ns // MS for ns in seen] == [150, 250, 350, 450]


def test_an_edge_between_two_ticks_is_looked_at_too() -> None:
    parts = Looked(120 * MS, at_ns=0)
    parts.fault.changes_alone = True
    task = parts.task()
    assert (react(task, 0), react(task, 100 * MS), react(task, 120 * MS)) == (
        100 * MS, 120 * MS, 200 * MS,
    )  # fmt: skip


def test_a_command_is_followed_at_once_or_at_the_end_of_the_step_under_way() -> None:
    parts = Looked(at_ns=0)
    parts.fault.changes_alone = True
    task = parts.task()
    react(task, 0)
    parts.plant.ns = 70 * MS
    task.told(70 * MS)
    assert parts.looks == 2
    assert task.next_ns == 170 * MS, "its ticks count from here on"
    parts.plant.ns, parts.plant.target_ns = 80 * MS, 90 * MS
    task.told(85 * MS)
    assert (parts.looks, task.next_ns) == (2, 90 * MS)
    assert react(task, 90 * MS) == 185 * MS
    saved = task.save()
    assert saved == {"k": 1, "next": 185 * MS, "offset": 85 * MS}
    other = Looked(at_ns=0).task()
    other.restore(saved)
    assert other.save() == saved


# -- all of a run


def system(*faults: Any) -> tuple[System, Schedule]:
    scenario = ramp()
    scenario.faults(*faults)
    out = scenario.build(compile=False)
    assert out.faults is not None
    return out, out.faults


OFFSET = {"name": "off", "where": "controller.u", "kind": "offset", "amount": 1.0}


def test_a_command_names_a_fault_of_the_run_that_can_act() -> None:
    _, faults = system({**OFFSET, "at": 0.3})
    assert faults.counts == {"off": 0}
    with pytest.raises(UnknownName, match="fault 'of'"):
        faults.command("of", "start", 0)
    faults.idle["off"] = "nobody reads it"
    with pytest.raises(FaultError, match="fault off cannot act in this run: nobody reads it"):
        faults.command("off", "start", 0)
    faults.feed([])
    assert faults.check("off") is faults.activities["off"], "in a replay it did what it did"


def test_why_a_fault_is_idle_is_said_once_and_not_in_a_replay() -> None:
    said: list[tuple[Any, ...]] = []
    runs: list[tuple[int, bool]] = []

    def run(ns: int, discrete: bool) -> None:
        runs.append((ns, discrete))

    for fed in (False, True):
        _, faults = system(OFFSET)
        faults.idle["off"] = "nobody reads it"
        faults.record(lambda *event: said.append(event))
        if fed:
            faults.feed([])
        told = faults.telling(run)
        told(0, True)
        told(5, False)
        assert faults.present.ns == 5
    assert [(e[0], e[2], e[3]) for e in said] == [(Tag(0), "off", "nobody reads it")]
    assert runs == [(0, True), (5, False)] * 2


def test_a_replay_says_again_what_is_not_there_at_its_tags() -> None:
    said: list[Any] = []
    faults = Schedule([], Present())
    faults.record(lambda tag, *_: said.append(tag))
    faults.feed([])
    faults._fed = [Event(Tag(ns), "k", "s", "", {"a": 1}) for ns in (3, 5, 5, 9, 12)]
    told = faults.telling(lambda *_: None)
    for ns, seen in ((2, 0), (3, 1), (5, 3), (8, 3)):
        told(ns, True)
        assert len(said) == seen, ns
    faults.over(9)
    assert said == [Tag(3), Tag(5), Tag(5), Tag(9)]


def test_what_is_spoiled_at_samples_is_what_was_declared() -> None:
    found = sampled(flown(ramp(), {**OFFSET, "at": 0.3, "duration": 0.3}))
    clean = sampled(flown(ramp()))
    assert np.round(found - clean, 9).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]


def test_a_fault_is_decided_before_anybody_reads() -> None:
    assert -(2**63) < FIRST < -(2**31), "whatever priority a task has"
    assert FaultTask.priority == FIRST


def test_what_is_saved_is_restored_with_the_same_faults_and_no_others() -> None:
    _, faults = system({**OFFSET, "at": 0.3})
    faults.present.ns = 77
    saved = faults.save()
    _, other = system({**OFFSET, "at": 0.3})
    other.restore(saved)
    assert other.save() == saved
    assert other.present.ns == 77
    with pytest.raises(ValueError, match="zip"):
        other.restore({**saved, "signals": []})


def test_a_command_is_looked_at_for_its_own_fault_alone() -> None:
    spoiled = {"where": "driven.u", "kind": "offset", "amount": 1.0}
    _, faults = system({**spoiled, "name": "one", "at": 0.5}, {**spoiled, "name": "two", "at": 0.7})
    asked, other = faults.tasks
    before = other.save()
    faults.command("one", "start", 200 * MS)
    faults.follow(200 * MS)
    assert asked.save()["offset"] == 200 * MS
    assert other.save() == before
    faults.follow(300 * MS)
    assert asked.save()["offset"] == 200 * MS, "a command is followed once"


# -- the faults of a line


def test_a_line_is_told_of_its_own_and_never_of_times_to_come() -> None:
    said: list[tuple[str, int]] = []

    class Told(Present):
        def began(self, fault: Any, ns: int, *_: Any) -> None:  # noqa: ARG002
            said.append(("began", ns))

        def ended(self, fault: Any, ns: int, *_: Any) -> None:  # noqa: ARG002
            said.append(("ended", ns))

    def activity(signal: str, ended_ns: int) -> Any:
        return SimpleNamespace(
            fault=SimpleNamespace(signal=signal), ended_ns=ended_ns, ended="over",
            save=lambda: {"at": ended_ns}, restore=restored.append,
        )  # fmt: skip

    restored: list[Any] = []
    present = Told()
    one, other = activity("to_board", 50), activity("from_board", 70)
    line = LineFaults([one, other], present)
    assert line.now_ns == -1
    present.ns = 60
    assert (line.at("to_board"), line.at("from_board"), line.at("board")) == ((one,), (other,), ())
    line.began(one, 40, "", {})
    line.began(one, 65, "", {})
    line.ended(one)
    line.ended(other)
    assert said == [("began", 40), ("began", 60), ("ended", 50), ("ended", 60)]
    assert line.save() == [{"at": 50}, {"at": 70}]
    line.restore([{"a": 1}, {"a": 2}])
    assert restored == [{"a": 1}, {"a": 2}]
    with pytest.raises(ValueError, match="zip"):
        line.restore([{"a": 1}])


# -- conditions


def holds(text: str, **values: float) -> bool:
    signals = Signals(*values, Signal("v", shape=(2,)))
    port = SignalPort("p", signals, np.array([*values.values(), 5.0, 6.0]))
    return parse_condition(text).bind({"p": port})()


@pytest.mark.parametrize(
    ("test", "below", "same", "above"),
    [
        ("<", True, False, False), ("<=", True, True, False), (">", False, False, True),
        (">=", False, True, True), ("==", False, True, False), ("!=", True, False, True),
    ],
)  # fmt: skip
def test_each_comparison(test: str, below: bool, same: bool, above: bool) -> None:
    text = f"p.x {test} 2"
    assert [holds(text, x=x) for x in (1, 2, 3)] == [below, same, above]
    turned = f"2 {test} p.x"
    assert [holds(turned, x=x) for x in (3, 2, 1)] == [below, same, above]


def test_all_comparisons_have_to_hold() -> None:
    text = " p.x > 1  and p.y<-.5e1 and 1e2 > p.x "
    assert parse_condition(text).text == text.strip()
    assert holds(text, x=2, y=-6)
    assert not holds(text, x=0, y=-6)
    assert not holds(text, x=2, y=-5)
    assert not holds(text, x=200, y=-6)
    assert holds("p.y != p.x", x=1, y=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p.x", "'p.x' is not a comparison"),
        ("p.x > 1 and", "neither a number nor|is not a comparison"),
        ("p.x = 1", "is not a comparison"),
        ("1 > 2", "'1 > 2' compares two numbers"),
        ("p.x > nan", "'nan' is neither a number nor a name of the form component.signal"),
        ("p.x > 1e999", "'1e999' is neither"),
        ("x > 1", "'x' is neither"),
        ("p.x.y > 1", "'p.x.y' is neither"),
        ("p.x > 1_0", "'1_0' is neither"),
    ],
)
def test_what_is_no_condition_is_told(text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        parse_condition(text)


def test_a_condition_has_at_most_500_characters_and_compares_one_element() -> None:
    assert parse_condition("p.x > 1".ljust(500))
    with pytest.raises(ScenarioError, match="has 501 characters; write at most 500"):
        parse_condition("p.x > 1".ljust(501))
    with pytest.raises(
        ScenarioError, match=r"p.v has 2 elements, but a comparison needs one number"
    ):
        holds("p.v > 1", x=1)


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
        (ONE + "every = 1\n", 6, "also needs the key 'duration'"),
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
