"""What a client is shown, in a terminal and in a notebook; and how a value with a unit is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli import ctl
from rtsim.cli.main import main
from rtsim.gateway.client import NEXT_TAG, At, Glance, ParameterTable, Sample, StateTable, Units

STATE = StateTable(
    ns=1_500_000_000, wall_ns=5, rate=0.5, standing=False, late=1, missed=2, overruns_compute=3,
    overruns_wake=4, margin_ns=1_250_000, frames=77, leg=1,
)  # fmt: skip


class Told:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.last: tuple[Any, ...] = ()

    def set(self, *given: Any) -> At:
        self.last = given
        return At(310_000_000, 7_400_000_000)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()

    @contextmanager
    def connected(*_: Any) -> Iterator[Told]:
        yield found

    monkeypatch.setattr(ctl, "connected", connected)
    return found


@pytest.mark.parametrize(
    ("typed", "value", "unit"),
    [
        ("5000", 5000.0, None), ("5000 kg", 5000.0, "kg"), ("5000 [kg]", 5000.0, "kg"),
        ("1,2,3 m/s", [1.0, 2.0, 3.0], "m/s"), ("1 2 3", [1.0, 2.0, 3.0], None),
        ("0.3 [1]", 0.3, "1"), ("-2 1/s^2", -2.0, "1/s^2"), ("12 kg m^2", 12.0, "kg m^2"),
    ],
)  # fmt: skip
def test_a_value_is_read_with_the_unit_behind_it(
    told: Told, typed: str, value: object, unit: str | None
) -> None:
    result = CliRunner().invoke(main, ["ctl", "set", "a.b", "--", *typed.split()])
    assert told.last == ("a.b", value, unit)
    assert result.output == "at 0.310000000 s, in 7.4 s\n"


@pytest.mark.parametrize("typed", ["fast", "kg 3"])
def test_a_value_without_a_number_is_refused(told: Told, typed: str) -> None:
    result = CliRunner().invoke(main, ["ctl", "set", "a.b", *typed.split()])
    assert result.exit_code == 2
    assert "is not a number" in result.output
    assert told.last == ()


@pytest.mark.parametrize(
    ("at", "says"),
    [(At(NEXT_TAG), "at the next tag"), (At(2_000_000_000), "at 2.000000000 s"),
     (At(10_000_000, 90_000_000), "at 0.010000000 s")],
)  # fmt: skip
def test_when_it_acts_is_told(at: At, says: str) -> None:
    assert (str(at), repr(at)) == (says, f"<{says}>")
    assert at == int(at)


PARAMETERS: list[Mapping[str, Any]] = [
    {"name": "a.<b>", "value": [1.0, 2.5], "unit": "kg", "low": None, "high": 3.0,
     "description": "<script>"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "cells"),
    [
        (STATE, ["1.500 s", "rate 0.5", "7 (compute 3, wake 4)", "1.250 ms", "77"]),
        (Units({"a.b": "m/s", "<i>": "1"}), ["a.b", "m/s", "&lt;i&gt;"]),
        (ParameterTable(dict(p) for p in PARAMETERS),
         ["a.&lt;b&gt;", "1, 2.5", "kg", "[-inf, 3.0]", "&lt;script&gt;"]),
        (Sample(STATE, {"a.b": 0.25}, 0), ["a.b", "0.25"]),
        (Glance(STATE, {"a.b": 0.25}, {}), ["a.b", "0.25"]),
    ],
)  # fmt: skip
def test_a_notebook_shows_tables_in_which_nothing_is_markup(shown: Any, cells: list[str]) -> None:
    page = shown._repr_html_()
    for cell in cells:
        assert f"<td>{cell}</td>" in page
    assert page.count("<table>") == page.count("</table>") == 1
    assert "<script>" not in page
    assert len(repr(shown)) < 500


def test_a_state_says_how_it_goes() -> None:
    assert str(STATE) == "1.500 s, rate 0.5, 7 overruns, 1 late, 2 missed"
