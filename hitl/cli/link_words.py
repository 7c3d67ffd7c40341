"""Texts and JSON about a board and the test of its link."""

from __future__ import annotations

from typing import Any

import numpy as np

from hitl.boards.description import BoardDescription
from hitl.comparison.execution import FEWEST_FOR_P99, p99
from hitl.interface import Interface
from hitl.protocol.codec import name_hash
from hitl.protocol.line import BaudRate, offered
from hitl.protocol.messages import HelloReply
from hitl.results.target import bars
from hitl.testing.link_trial import LinkTrial
from rtsim.core.signals import Vector

_USUAL = 115_200
"""The usual bit rate of a serial line, bit/s."""
_WIDE = 4.0
"""A histogram has logarithmic bins if its largest / smallest value exceeds this number."""


def about_board(board: HelloReply, interface: Interface | None) -> list[str]:
    """Return lines of text about the board's identity, from its reply to HELLO.

    ``interface`` is the expected controller; its name is printed if the board runs it.
    """
    if interface is not None and board.name_hash == name_hash(interface.name):
        carries = f"{interface.name}, name hash {board.name_hash:08x}"
    else:
        carries = f"name hash {board.name_hash:08x}"
    return [
        f"board       protocol {board.version}, double of {board.double_bytes} bytes, payload up "
        f"to {board.max_payload} bytes, {board.clock_hz / 1e6:g} MHz",
        f"            build {board.build:08x}, schema {board.schema:016x}, "
        f"boot nonce {board.boot_nonce:08x}",
        f"controller  {carries}",
    ]


def about_trial(trial: LinkTrial, own_time: bool, at: BoardDescription) -> list[str]:
    """Return lines of text about the serial line, the round trips and the clock.

    If ``own_time`` is true, the board's clock measured the times, otherwise the host's clock.
    ``at`` describes the board.
    """
    lines = [
        f"line        {_rate(trial, at)}",
        f"echo        {trial.sent} sent, {len(trial.trips)} answered, {trial.lost} lost, "
        f"{trial.repeated} repeated, {trial.garbage} damaged",
    ]
    if not trial.trips:
        return lines
    ms = trial.delays_ns / 1e6
    low, middle, high = (f"{np.quantile(ms, q):.3f}" for q in (0.0, 0.5, 1.0))
    high99 = f", p99 {p99(ms):.3f}" if len(ms) >= FEWEST_FOR_P99 else ""
    whose = "in the board's own time" if own_time else "by the wall clock"
    lines.append(
        f"round trip  min {low}, median {middle}{high99}, max {high} ms {whose}; "
        f"{trial.wire_ns / 1e6:.3f} ms of it on the wire"
    )
    lines += [f"            {row}" for row in histogram(ms)]
    if (clock := trial.clock) is not None:
        lines.append(
            f"clock       offset {clock.offset_ns / 1e9:.6f} s +- {clock.offset_sigma_ns / 1e3:.1f}"
            f" us, drift {clock.drift_ppm:+.1f} +- {1e6 * clock.drift_sigma:.1f} ppm; unequal "
            "delays of request and reply add an offset error of at most "
            f"{clock.asymmetry_ns / 1e3:.0f} us"
        )
    return lines


def _line_rate(trial: LinkTrial, at: BoardDescription) -> BaudRate:
    return BaudRate(trial.baud, trial.board.clock_hz, at.line)


def _rate(trial: LinkTrial, at: BoardDescription) -> str:
    rate = _line_rate(trial, at)
    if not rate.good:
        return str(rate)
    listed = ", ".join(map(str, offered(trial.board.clock_hz, at.line)))
    text = f"{rate}; {trial.board.clock_hz / 1e6:g} MHz divides well to {listed}"
    usual = BaudRate(_USUAL, at.clock_hz, at.line)
    if trial.board.clock_hz == at.clock_hz and not usual.good:
        text += f", and not to {_USUAL} ({usual.error_percent:+.1f} %)"
    return text


def histogram(ms: Vector) -> list[str]:
    """Return the lines of a histogram of the sorted times ``ms`` (n,), in ms.

    Bars show the values up to the 99th percentile; the last line counts the values beyond it.
    """
    high = float(p99(ms))
    few = ms[ms <= high]
    rows = list(bars(1e6 * few, logarithmic=high > _WIDE * few[0], mark="#"))
    if beyond := len(ms) - len(few):
        rows.append(f"beyond {high:.3f} ms: {beyond}")
    return rows


def board_json(board: HelloReply) -> dict[str, Any]:
    """Return the board's reply to HELLO as plain data, with hashes and nonce as hex text."""
    return {
        **board._asdict(),
        "schema": f"{board.schema:016x}",
        "build": f"{board.build:08x}",
        "boot_nonce": f"{board.boot_nonce:08x}",
        "name_hash": f"{board.name_hash:08x}",
    }


def trial_json(trial: LinkTrial, own_time: bool, at: BoardDescription) -> dict[str, Any]:
    """Return the result of a link test as plain data; keys ending in ``_ns`` are times in ns."""
    delays, clock, rate = trial.delays_ns, trial.clock, _line_rate(trial, at)
    quantiles = {"min": 0.0, "median": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "ok": trial.ok,
        "baud": {"rate": trial.baud, "error_percent": rate.error_percent, "good": rate.good},
        "offered_baud": offered(trial.board.clock_hz, at.line),
        "sent": trial.sent,
        "answered": len(trial.trips),
        "lost": trial.lost,
        "repeated": trial.repeated,
        "garbage": trial.garbage,
        "time": "board" if own_time else "wall",
        "wire_ns": trial.wire_ns,
        "round_trip_ns": {
            name: float(np.quantile(delays, q, method="inverted_cdf"))
            for name, q in quantiles.items()
        }
        if len(delays)
        else None,
        "clock": None
        if clock is None
        else {
            "offset_ns": clock.offset_ns, "offset_sigma_ns": clock.offset_sigma_ns,
            "drift_ppm": clock.drift_ppm, "drift_sigma_ppm": 1e6 * clock.drift_sigma,
            "asymmetry_ns": clock.asymmetry_ns,
        },
    }  # fmt: skip
