"""The summary of a run: as text, as plain data, and as an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import click

from rtsim.cli.common import FAILED, INTERRUPTED, NO, explain
from rtsim.cli.faults import faults_to_json, print_faults
from rtsim.cli.segments import Segment
from rtsim.cli.strict import print_strict, strict_to_json, went_wrong
from rtsim.cli.tables import console
from rtsim.cli.telemetry import telemetry_line, telemetry_to_json
from rtsim.core.clock import age_ns
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.inbox import Inbox
from rtsim.runs.simulation import RecordingLost, RunResult


class RequestedRun(Protocol):
    """What a summary repeats of what was typed."""

    @property
    def scenario(self) -> str: ...

    @property
    def until(self) -> str | None: ...

    @property
    def strict(self) -> bool: ...


@dataclass(frozen=True)
class RunSummary:
    """The result of a run; several segments if the run went back to a checkpoint."""

    flight: RequestedRun
    legs: Sequence[Segment]
    inbox: Inbox | None = None
    total_ns: int = field(default_factory=age_ns)
    """From the start of the command to the end of the run."""

    @property
    def outcome(self) -> RunResult:
        """Result of the last segment."""
        return self.legs[-1].outcome

    @property
    def path(self) -> Path | None:
        """Recording of the last segment; ``None`` without one."""
        return self.legs[-1].path

    def summary(self) -> dict[str, Any]:
        """Return the summary as plain data, for ``--json``."""
        out = self._summary(self.legs[-1])
        if len(self.legs) > 1:
            out["earlier"] = [self._summary(leg) for leg in self.legs[:-1]]
        if self.lost is not None:
            out["error"] = {"type": "RecordingLost", "message": explain(self.lost)}
        return out | {"total_s": self.total_ns / NS_PER_S} | telemetry_to_json(self.inbox)

    def _summary(self, leg: Segment) -> dict[str, Any]:
        outcome = leg.outcome
        return {
            "scenario": self.flight.scenario,
            "reason": outcome.reason,
            "simulated_s": outcome.ended.seconds,
            "wall_s": outcome.wall_ns / NS_PER_S,
            "times_real_time": outcome.speed,
            "overruns": outcome.overruns,
            "late": outcome.late,
            "missed": outcome.missed,
            **faults_to_json(outcome.system.faults),
            "recording": None if leg.path is None else str(leg.path),
            **({"checkpoints": [str(p) for p in leg.checkpoints]} if leg.checkpoints else {}),
            **(strict_to_json(outcome) if self.flight.strict else {}),
            "certificate": outcome.certificate.to_json(),
        }

    def _headline(self, outcome: RunResult, total: str = "") -> str:
        """A segment in one line; overruns come first if the run was paced."""
        paced = outcome.certificate.paced
        flown = (outcome.ended.ns - outcome.began.ns) / NS_PER_S
        back = outcome.restored
        return (
            f"{self.flight.scenario}: {flown:g} s in "
            f"{outcome.wall_ns / NS_PER_S:.3g} s ({outcome.speed:.4g} times real time)"
            f"{total}; "
            + (f"overruns {outcome.overruns}, " if paced else "")
            + f"late answers {outcome.late}, missed requests {outcome.missed}"
            + self._early(outcome)
            + ("" if back is None else f"; went back to {back.tag.seconds:g} s")
        )

    def print(self, more: Callable[[], None] | None = None) -> None:
        """Print the summary as text; ``more`` prints the command's own lines before the files."""
        for leg in self.legs[:-1]:
            click.echo(self._headline(leg.outcome))
            _print_files(leg)
        last = self.legs[-1]
        total = f", {self.total_ns / NS_PER_S:.2f} s with start-up"
        click.echo(self._headline(last.outcome, total))
        if last.outcome.certificate.paced:
            console().print(last.outcome.certificate.table())
        if more is not None:
            more()
        if self.flight.strict:
            print_strict(leg.outcome for leg in self.legs)
        print_faults(last.outcome.system.faults)
        if self.inbox is not None and self.inbox.trouble:
            click.echo(f"remote control was lost during the run: {self.inbox.trouble}")
        if viewed := telemetry_to_json(self.inbox):
            click.echo(telemetry_line(viewed["telemetry"], viewed["looks_lost"]))
        _print_files(last)
        if last.path is not None:
            click.echo(f"next: rtsim report {last.path}")

    @property
    def lost(self) -> RecordingLost | None:
        """Why the first incomplete recording ended early; ``None`` if all are complete."""
        return next((leg.lost for leg in self.legs if leg.lost is not None), None)

    def _early(self, outcome: RunResult) -> str:
        """Text about what stopped the run before its end; else empty."""
        if outcome.reason == "interrupted":
            return ", interrupted"
        if outcome.reason == "quit":
            asked = f" of {self.flight.until} s" if self.flight.until is not None else ""
            return f", ended by the command quit at {outcome.ended.seconds:g} s{asked}"
        return ""

    @property
    def _cut_short(self) -> bool:
        """The run was stopped before the end that ``--until`` asks for.

        Without ``--until`` a command to quit is the end of the run, as a pilot's Esc is.
        """
        reason = self.outcome.reason
        return reason == "interrupted" or (reason == "quit" and self.flight.until is not None)

    def exit(self) -> None:
        """Exit the process with the run's exit status if it is not 0."""
        if self.lost is not None:
            click.secho(f"Error: {explain(self.lost)}", err=True, fg="red")
            sys.exit(FAILED)
        if self._cut_short:
            sys.exit(INTERRUPTED)
        if self.flight.strict and any(went_wrong(leg.outcome) for leg in self.legs):
            sys.exit(NO)


def _print_files(leg: Segment) -> None:
    if leg.path is None:
        return
    click.echo(f"recording: {leg.path}")
    if leg.checkpoints:
        many, last = len(leg.checkpoints), leg.checkpoints[-1]
        click.echo(f"checkpoints: {many}, the last in {last}")
