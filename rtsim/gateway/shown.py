"""What a client is shown of a run in progress; in a notebook, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rtsim.core.tag import NS_PER_S

NEXT_TAG = -1


class At(int):
    """The ns of the tag at which a command acts; :data:`NEXT_TAG` while simulated time stands.

    ``wait_s`` is how long from its answer on, of the wall: 0 where it has acted already.
    """

    wait_s: float

    def __new__(cls, ns: int, wait_ns: int = 0) -> At:
        self = super().__new__(cls, ns)
        self.wait_s = wait_ns / NS_PER_S
        return self

    @property
    def seconds(self) -> float:
        return self / NS_PER_S

    def __str__(self) -> str:
        if self == NEXT_TAG:
            return "at the next tag"
        soon = f", in {self.wait_s:.1f} s" if self.wait_s >= 0.1 else ""
        return f"at {self.seconds:.9f} s{soon}"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True)
class StateTable:
    """How a run stands: ``ns`` is simulated, ``rate`` 0 where it is as fast as possible.

    ``leg`` is 1, and one more each time the run was restored.
    """

    ns: int
    wall_ns: int
    rate: float
    standing: bool
    late: int
    missed: int
    overruns_compute: int
    overruns_wake: int
    margin_ns: int
    frames: int
    leg: int

    @property
    def seconds(self) -> float:
        return self.ns / NS_PER_S

    @property
    def overruns(self) -> int:
        return self.overruns_compute + self.overruns_wake

    def _repr_html_(self) -> str:
        margin = f"{self.margin_ns / 1e6:.3f} ms"
        rows = [("simulated", f"{self.seconds:.3f} s"), ("pace", self._pace), ("margin", margin)]
        overruns = f"{self.overruns} (compute {self.overruns_compute}, wake {self.overruns_wake})"
        rows += [("overruns", overruns), ("late", str(self.late)), ("missed", str(self.missed))]
        return table(("", ""), [*rows, ("frames", str(self.frames)), ("leg", str(self.leg))])

    @property
    def _pace(self) -> str:
        if self.standing:
            return "standing"
        return f"rate {self.rate:g}" if self.rate else "rate max"

    def __str__(self) -> str:
        return (
            f"{self.seconds:.3f} s, {self._pace}, {self.overruns} overruns, {self.late} late, "
            f"{self.missed} missed"
        )


@dataclass(frozen=True)
class Sample:
    """One look at what is watched; ``lost`` counts those that did not get through before it."""

    state: StateTable
    values: Mapping[str, float]
    lost: int

    def _repr_html_(self) -> str:
        return f"{escape(str(self.state))}{_values(self.values)}"


@dataclass(frozen=True)
class Glance:
    """How the run stands, values by name, and by link how many messages took how long.

    The classes of a count are those of :mod:`rtsim.timing.tally`.
    """

    state: StateTable
    values: Mapping[str, float]
    latency: Mapping[str, list[int]]

    def _repr_html_(self) -> str:
        return f"{escape(str(self.state))}{_values(self.values)}"


class Units(dict[str, str]):
    """Units by name."""

    def _repr_html_(self) -> str:
        return table(("signal", "unit"), self.items())


class ParameterTable(list[dict[str, Any]]):
    """What can be set, a row each."""

    def _repr_html_(self) -> str:
        head = ("parameter", "at the start", "unit", "range", "")
        return table(head, ([p["name"], *_described(p)] for p in self))


def _described(row: Mapping[str, Any]) -> list[str]:
    low, high = row["low"], row["high"]
    limits = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
    value = ", ".join(f"{v:g}" for v in row["value"])
    return [value, row["unit"], limits, row["description"]]


def _values(values: Mapping[str, float]) -> str:
    return table(("", ""), ((name, f"{value:g}") for name, value in values.items()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As HTML; nothing in it is taken for markup."""
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>" if any(head) else f"<table>{body}</table>"
