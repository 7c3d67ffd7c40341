"""The file of stimuli: it keeps every bit, and each mistake in it is named."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from stimuli_parts import write_dividing

from hitl.interface import Field, load_interface
from hitl.stimuli.file import (
    Stimuli,
    StimuliError,
    Stimulus,
    beside,
    load_stimuli,
    stimuli_of,
    why_refused,
)
from rtsim.core.signals import Signal, Signals

VALUES = [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 1e22, 3.0]


def test_a_file_keeps_every_bit(tmp_path: Path) -> None:
    table = np.array([[v, w] for v in VALUES for w in (1.0, -0.0)]).repeat(2, axis=0)
    given = Stimuli(
        "motor", ("a", 'b"\\'), (Stimulus(table, ('x.c:3: s[0] == "é" is true',), "it ended"),),
        {"seed": 3, "scenario": "a b.py"},
    )  # fmt: skip
    path = tmp_path / "motor.stimuli.toml"
    path.write_text(given.text(), encoding="utf-8")
    read = load_stimuli(path)
    assert read.stimuli[0].steps.tobytes() == table.tobytes()
    assert read.text() == given.text()
    assert (read.inputs, read.stimuli[0].fails) == (given.inputs, "it ended")
    assert read.steps == 36


def test_columns_are_found_by_name() -> None:
    given = Stimuli("motor", ("a", "b"), (Stimulus(np.array([[1.0, 2.0]])),))
    (table,) = given.ordered(Signals(Signal("b"), Signal("a")))
    assert table.tolist() == [[2.0, 1.0]]
    with pytest.raises(StimuliError, match="inputs are a, b; the controller motor has a, c"):
        given.ordered(Signals(Signal("a"), Signal("c")))


HEAD = 'format = 1\ncontroller = "dividing"\ninputs = ["code"]\n'
ONE = HEAD + "[[stimulus]]\nsteps = [{ inputs = [1.0] }]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "format is None, but this version of rtsim reads format 1"),
        (
            "format = 1\ncontroller = 3\n",
            "controller = 3 is not valid; write the name of the controller",
        ),
        ("format = 1\nx = 3\n", "d.stimuli.toml:2: unknown key 'x'"),
        (HEAD, "there is no \\[\\[stimulus\\]\\]"),
        (HEAD + "[stimulus]\n", r"stimulus = \{\} is not valid; write \[\[stimulus"),
        (HEAD + "[[stimulus]]\n", r"stimulus 1: steps is missing; write steps = \[{ inputs"),
        (ONE.replace("[1.0]", "[1.0, 2.0]"), "write a list of 1 numbers"),
        (ONE.replace("[1.0]", "[true]"), "5: stimulus 1.steps 1: inputs: element 1, True is not"),
        (ONE.replace("[1.0]", '["1"]'), "inputs: element 1, '1' is not valid; write a number"),
        (ONE.replace("[1.0]", f"[{10**400}]"), "has 1329 bits; write a number of at most 64 bits"),
        (
            ONE.replace("[1.0]", "[1.0], times = 0"),
            "times = 0 is not valid; write a whole number >= 1",
        ),
        (ONE.replace("[1.0]", "[1.0], times = 2000000"), "more than 1000000 steps"),
        (ONE.replace("[1.0]", "[1.0], time = 2"), "unknown key 'time'; did you mean times"),
        (ONE + "reaches = 3\n", "stimulus 1: reaches = 3 is not valid; write a list of texts"),
        ("format = \n", "is not valid TOML"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "d.stimuli.toml"
    path.write_text(text)
    with pytest.raises(StimuliError, match=words):
        load_stimuli(path)


def test_the_file_beside_the_interface_file_is_taken(tmp_path: Path) -> None:
    interface = load_interface(write_dividing(tmp_path))
    assert stimuli_of({"c": interface}) == {}
    beside(interface).write_text(ONE)
    assert beside(interface).name == "dividing.stimuli.toml"
    (found,) = stimuli_of({"c": interface, "python": None}).values()
    assert found.outdated(interface) == ""  # written by hand
    beside(interface).write_text(ONE.replace("[[", "[generated]\nsha256 = 'other'\n[["))
    assert "sources changed" in stimuli_of({"c": interface})["c"].outdated(interface)
    beside(interface).write_text(ONE.replace('"dividing"', '"other"'))
    with pytest.raises(StimuliError, match="has stimuli for the controller other"):
        stimuli_of({"c": interface})
    with pytest.raises(StimuliError, match=r"none\.toml: No such file"):
        stimuli_of({"c": interface}, {"c": tmp_path / "none.toml"})


def test_a_scaled_value_at_its_limit_is_allowed_and_one_that_the_type_cannot_hold_is_not() -> None:
    scaled = Field(Signal("x", type="int16", low=0.0, high=0.3), "x", True, 1, scale=0.1)
    assert why_refused(scaled, 3 * 0.1) == "", "0.30000000000000004"
    assert why_refused(scaled, 0.31) == "high = 0.3"
    wide = Field(Signal("x", type="int8"), "x", True, 1)
    assert (why_refused(wide, 127.0), why_refused(wide, 128.0)) == ("", "int8 cannot hold it")
    special = Field(Signal("x"), "x", True, 1, specials=(np.nan, np.inf))
    assert [why_refused(special, v) for v in (np.nan, np.inf, 1e300)] == ["", "", ""]
    assert why_refused(special, -np.inf) == "an infinite value needs low = -inf"
