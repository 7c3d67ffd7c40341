"""The results that the Python client returns; a notebook shows them as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from rtsim.core.tag import NS_PER_S

NEXT_TAG = -1


class At(int):
    """The tag at which a command acts, ns; :data:`NEXT_TAG` while the run is paused.

    ``wait_s`` is the wall-clock time from the answer to that tag, s; 0 if the command has acted.
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
    """The state of a run: ``ns`` is simulated time; ``rate`` is 0 if as fast as possible.

    ``leg`` is the segment of the run: 1, and one more after each restore.  ``lateness_ns`` is the
    lateness of the latest wake of a paced run, -1 if unknown.
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
    lateness_ns: int = -1

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
            return "paused"
        return f"rate {self.rate:g}" if self.rate else "rate max"

    def __str__(self) -> str:
        return (
            f"{self.seconds:.3f} s, {self._pace}, {self.overruns} overruns, {self.late} late, "
            f"{self.missed} missed"
        )


@dataclass(frozen=True)
class Sample:
    """One sample of the watched signals; ``lost`` is the number of samples lost before it."""

    state: StateTable
    values: Mapping[str, float]
    lost: int

    def _repr_html_(self) -> str:
        return f"{escape(str(self.state))}{_values(self.values)}"


@dataclass(frozen=True)
class Glance:
    """The state of the run, values by name, and a histogram of message latencies by link.

    :mod:`rtsim.timing.tally` defines the classes of the histogram.  ``stamps`` has the times at
    which the latest message of each link was initiated, was completed and arrives, ns; a link
    without messages is left out.
    """

    state: StateTable
    values: Mapping[str, float]
    latency: Mapping[str, list[int]]
    stamps: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        return f"{escape(str(self.state))}{_values(self.values)}"


class Units(dict[str, str]):
    """The unit of each signal, by the signal's name."""

    def _repr_html_(self) -> str:
        return table(("signal", "unit"), self.items())


class ParameterTable(list[dict[str, Any]]):
    """The parameters that can be set, one row each."""

    def _repr_html_(self) -> str:
        head = ("parameter", "initial value", "unit", "range", "")
        return table(head, ([p["name"], *_described(p)] for p in self))


def _described(row: Mapping[str, Any]) -> list[str]:
    low, high = row["low"], row["high"]
    limits = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
    value = ", ".join(f"{v:g}" for v in row["value"])
    return [value, row["unit"], limits, row["description"]]


def _values(values: Mapping[str, float]) -> str:
    return table(("", ""), ((name, f"{value:g}") for name, value in values.items()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; the texts are escaped."""
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>" if any(head) else f"<table>{body}</table>"
