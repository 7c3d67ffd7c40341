"""What a board said and measured of one run: who it is, the line's budget, its steps, its stack."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.boards.paced_line import Timing
from hitl.comparison.execution import EXCHANGE, HOST, MODELLED, TARGET, Execution
from hitl.controllers.protocols import board_of
from hitl.protocol.events import EventCounts
from hitl.protocol.line import Budget
from hitl.protocol.messages import HelloReply
from rtsim.core.tag import Period


@dataclass(frozen=True, eq=False)
class OnTarget:
    """One run of a controller on a board."""

    url: str
    board: HelloReply
    """What it said at HELLO."""
    budget: Budget
    """Of the longest frames, with the longest step that was observed."""
    cycles: NDArray[np.int64]
    """(k,): processor cycles of each step."""
    execution: Execution | None
    """``None`` where no step was answered."""
    exchange: Execution | None
    """From a request's first byte to its reply's last: of the board's clock in lockstep, of the
    host's where it waits for the answer.  In real time an answer is taken when it is due, which
    says nothing; then it is the step's execution, what the firmware takes beside it and the longest
    frames on the wire (``MODELLED``), the latency that such a run measured.
    """
    stack: int
    """The most bytes of it that were ever in use."""
    counts: EventCounts
    pacing: Timing | None = None
    """How an emulated board in real time kept to the clock."""

    @classmethod
    def of(cls, controller: object, period: Period | None = None) -> OnTarget | None:
        """What ``controller`` has to say; ``None`` of one that is on no board, or met none."""
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
            budget=replace(one.budget, execution_ns=longest),
            cycles=np.array(one.cycles, np.int64),
            execution=execution,
            exchange=exchange,
            stack=one.stack,
            counts=one.counts,
            pacing=one.pacing,
        )

    @property
    def hello(self) -> str:
        """Who it is, in one sentence."""
        return hello(self.board)

    @property
    def wire_ns(self) -> int:
        """Of the longest request and reply."""
        return self.budget.request_ns + self.budget.reply_ns

    @property
    def counted(self) -> dict[str, int]:
        """What came besides answers, where something did."""
        counts = {k: v for k, v in asdict(self.counts).items() if isinstance(v, int)}
        counts["garbage"] = sum(self.counts.garbage.values())
        del counts["frames"]
        return {k: v for k, v in counts.items() if v}

    def to_json(self) -> dict[str, Any]:
        """Plain data: times in ns, execution also in cycles."""
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
    """Of its exchanges."""
    if one.paced:
        return MODELLED
    # An emulated board in lockstep has no other time than its cycles.
    return TARGET if one.url.startswith("board:") else HOST


def _exchanges(one: Any) -> NDArray[np.int64]:
    """(k,): ns of each exchange."""
    if not one.paced:
        return np.array(one.exchange_ns, np.int64)
    budget: Budget = one.budget
    rest_ns = budget.request_ns + budget.handling_ns + budget.reply_ns
    return np.array([took + rest_ns for took in one.took_ns], np.int64)


def hello(board: HelloReply) -> str:
    """What a board said at HELLO, in one sentence."""
    return (
        f"protocol {board.version}, build {board.build:08x}, schema {board.schema:016x}, "
        f"{board.clock_hz / 1e6:g} MHz, double of {board.double_bytes} bytes, payload up to "
        f"{board.max_payload} bytes, boot {board.boot_nonce:08x}"
    )


def _by_name(counts: EventCounts) -> dict[str, int]:
    return {why.name.lower(): number for why, number in counts.garbage.items()}
