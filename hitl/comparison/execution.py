"""Execution times of a controller's steps, on the host or on a board.

The times are observations. The longest observed time is no upper limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.boards.paced import Timing
from hitl.building.build import PLAIN
from hitl.controllers.c_controller import board_of, kind_of_build
from hitl.protocol.line import Budget
from hitl.protocol.messages import HelloReply
from hitl.protocol.session import EventCounts
from rtsim.core.tag import Period
from rtsim.record.markup import duration

STEP, EXCHANGE = "execution time per step", "time of an exchange"
HOST, TARGET = "host time", "target clock"
"""The clock that measured the times, either of this machine or of the board."""
MODELLED = "modelled by execution, firmware and wire time"
"""Clock of exchanges in real time, whose times are modelled and not measured."""
LABEL = f"{STEP}, {HOST}"
FEWEST_FOR_P99 = 100


def p99(values: NDArray[Any]) -> Any:
    """Return the 99th percentile of sorted values (k,)."""
    return values[math.ceil(0.99 * len(values)) - 1]


@dataclass(frozen=True)
class Execution:
    """Statistics of the execution times of the steps in a run, in ns."""

    steps: int
    min: int
    mean: float
    p99: int | None
    """The 99th percentile, or ``None`` for fewer than 100 steps."""
    max: int
    """The longest observed time."""
    max_step: int
    """Index of the first step with the longest time."""
    period_ns: float | None
    took_ns: NDArray[np.int64]
    what: str = STEP
    clock: str = HOST

    @classmethod
    def of(
        cls,
        took_ns: Sequence[int] | NDArray[np.int64],
        period: Period | None = None,
        *,
        what: str = STEP,
        clock: str = HOST,
    ) -> Execution | None:
        """Return statistics of the execution times ``took_ns`` (k,), or ``None`` if empty."""
        took = np.array(took_ns, np.int64)
        if not len(took):
            return None
        return cls(
            steps=len(took),
            min=int(took.min()),
            mean=float(took.mean()),
            p99=int(p99(np.sort(took))) if len(took) >= FEWEST_FOR_P99 else None,
            max=int(took.max()),
            max_step=int(took.argmax()),
            period_ns=None if period is None else float(period.ns),
            took_ns=took,
            what=what,
            clock=clock,
        )

    @property
    def label(self) -> str:
        return f"{self.what}, {self.clock}"

    @property
    def share(self) -> float | None:
        """Longest execution time divided by the period, or ``None`` without a period."""
        return None if self.period_ns is None else self.max / self.period_ns

    @property
    def in_words(self) -> str:
        p99 = "" if self.p99 is None else f", p99 {duration(self.p99)}"
        share = "" if self.share is None else f", {100 * self.share:.3g} % of the period"
        return (
            f"{self.label}: min {duration(self.min)}, mean {duration(self.mean)}{p99}, "
            f"maximum observed {duration(self.max)} at step {self.max_step}{share}"
        )

    def cells(self) -> tuple[str, ...]:
        return (
            duration(self.min),
            duration(self.mean),
            "" if self.p99 is None else duration(self.p99),
            duration(self.max),
            str(self.max_step),
            "" if self.share is None else f"{100 * self.share:.3g} %",
        )

    def to_json(self) -> dict[str, object]:
        """Return plain data; ``clock`` is ``host``, ``target`` or (exchanges only) ``modelled``."""
        return {
            "clock": self.clock.partition(" ")[0],
            "steps": self.steps,
            "min_ns": self.min,
            "mean_ns": self.mean,
            "p99_ns": self.p99,
            "max_observed_ns": self.max,
            "max_step": self.max_step,
            "share_of_period": self.share,
        }


def timed(controller: object) -> bool:
    """Return False for a build with sanitizers or coverage, which is slower."""
    return kind_of_build(controller) == PLAIN


def clock_of(controller: object) -> str:
    """Return the clock that measures the steps of a controller."""
    return TARGET if on_board(controller) else HOST


def on_board(controller: object) -> bool:
    """Return True for a controller on a board, which counts processor cycles."""
    return hasattr(controller, "cycles")


@dataclass(frozen=True, eq=False)
class OnTarget:
    """Measurements of a board in one run of its controller."""

    url: str
    board: HelloReply
    """The board's reply to HELLO."""
    budget: Budget
    """Time budget for the longest protocol frames and the longest observed step."""
    cycles: NDArray[np.int64]
    """Processor cycles of each step (k,)."""
    execution: Execution | None
    """Execution times of the steps, or ``None`` if no step was answered."""
    exchange: Execution | None
    """Time of an exchange, from the first byte of a request to the last byte of its reply.

    In lockstep, the time is measured in cycles of an emulated board, or with the host's clock for a
    real board. In real time an answer is read only when it is due. The time is then modelled
    (``MODELLED``) as the sum of execution, the firmware's own time and the longest frames on the
    wire.
    """
    stack: int
    """Greatest stack use, bytes."""
    counts: EventCounts
    pacing: Timing | None = None
    """Report on how well an emulated board in real time kept up with the wall clock."""

    @classmethod
    def of(cls, controller: object, period: Period | None = None) -> OnTarget | None:
        """Return the measurements of a controller after its run, or ``None`` without a board."""
        board: HelloReply | None = board_of(controller)
        if board is None:
            return None
        one: Any = controller
        execution = Execution.of(one.took_ns, period, clock=TARGET)
        exchange = Execution.of(_exchanges(one), period, what=EXCHANGE, clock=_clock(one))
        longest = 0 if execution is None else execution.max
        return cls(
            url=one.url,
            board=board,
            budget=replace(one.budget.every(period), execution_ns=longest),
            cycles=np.array(one.cycles, np.int64),
            execution=execution,
            exchange=exchange,
            stack=one.stack,
            counts=one.counts,
            pacing=one.pacing,
        )

    @property
    def hello(self) -> str:
        """The board's identity in one line."""
        return hello(self.board)

    @property
    def wire_ns(self) -> int:
        """Longest time (ns) of a request and its answer on the serial line."""
        return self.budget.request_ns + self.budget.reply_ns

    def too_long(self, name: str) -> str:
        """Return a text if the longest exchange exceeds the period, else "".

        The estimate combines the longest frames with the longest observed step. A longer measured
        exchange replaces the estimate.
        """
        longest, budget = self.budget.answered_ns, self.budget
        if self.exchange is not None and self.exchange.clock == TARGET:
            longest = max(longest, self.exchange.max)
        if longest <= budget.period_ns:
            return ""
        return (
            f"an exchange of {name} with the board takes up to {duration(longest)}, longer than "
            f"its period of {duration(budget.period_ns)}, so in real time it misses requests"
        )

    @property
    def counted(self) -> dict[str, int]:
        counts = {k: v for k, v in asdict(self.counts).items() if isinstance(v, int)}
        counts["garbage"] = sum(self.counts.garbage.values())
        del counts["frames"]
        return {k: v for k, v in counts.items() if v}

    def to_json(self) -> dict[str, Any]:
        """Return plain data with times in ns and cycles."""
        few = self.cycles if len(self.cycles) else np.zeros(1, np.int64)
        return {
            "url": self.url,
            "board": self.board._asdict(),
            "budget": {
                **asdict(self.budget),
                "exchange_ns": self.budget.exchange_ns,
                "rate_hz": self.budget.rate_hz,
                "holds": self.budget.holds,
            },
            "cycles": {
                "min": int(few.min()),
                "mean": float(few.mean()),
                "max_observed": int(few.max()),
            },
            "execution": None if self.execution is None else self.execution.to_json(),
            "exchange": None if self.exchange is None else self.exchange.to_json(),
            "stack_bytes": self.stack,
            "pacing": None if self.pacing is None else self.pacing.to_json(),
            "repeated": self.counts.repeated,
            "counts": {**asdict(self.counts), "garbage": _by_name(self.counts)},
        }


def _clock(one: Any) -> str:
    if one.paced:
        return MODELLED
    # An emulated board in lockstep measures time in its cycles.
    return TARGET if one.url.startswith("board:") else HOST


def _exchanges(one: Any) -> NDArray[np.int64]:
    if not one.paced:
        return np.array(one.exchange_ns, np.int64)
    budget: Budget = one.budget
    rest_ns = budget.request_ns + budget.handling_ns + budget.reply_ns
    return np.array([took + rest_ns for took in one.took_ns], np.int64)


def hello(board: HelloReply) -> str:
    return (
        f"protocol {board.version}, build {board.build:08x}, schema {board.schema:016x}, "
        f"{board.clock_hz / 1e6:g} MHz, double of {board.double_bytes} bytes, payload up to "
        f"{board.max_payload} bytes, boot {board.boot_nonce:08x}"
    )


def _by_name(counts: EventCounts) -> dict[str, int]:
    return {why.name.lower(): number for why, number in counts.garbage.items()}
