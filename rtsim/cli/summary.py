"""The summary of a run: as text, as plain data, and as an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import click

from rtsim.cli.common import FAILED, INTERRUPTED, NO, explain, show_result
from rtsim.cli.faults import faults_to_json, print_faults
from rtsim.cli.strict import print_strict, strict_to_json
from rtsim.cli.tables import console
from rtsim.cli.telemetry import telemetry_line, telemetry_to_json
from rtsim.cli.told import print_told, print_waiting, told_to_json
from rtsim.cli.web_page import page_to_json
from rtsim.core.clock import age_ns
from rtsim.core.errors import RecordingError
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.inbox import Inbox
from rtsim.gateway.web.launching import page_line
from rtsim.runs.result import RunResult


class RequestedRun(Protocol):
    """The arguments of a command that its summary repeats."""

    @property
    def scenario(self) -> str: ...

    @property
    def until(self) -> str | None: ...

    @property
    def strict(self) -> bool: ...

    @property
    def verbose(self) -> bool: ...


@dataclass(frozen=True)
class RunSummary:
    """The result of a run as text, as plain data and as an exit status."""

    options: RequestedRun
    result: RunResult
    inbox: Inbox | None = None
    total_ns: int = field(default_factory=age_ns)
    """Wall-clock time from the start of the command to the end of the run, ns."""
    doubts: tuple[str, ...] = ()
    """Warnings of the command itself, which make ``--strict`` fail as those of the run do."""

    def show_json(self, **more: object) -> None:
        """Print the summary as JSON, with the command's own entries ``more``."""
        show_result({**self.to_json(), **more}, self.status, self.why)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain data, for ``--json``."""
        out = self._summary(self.result)
        if self.result.earlier:
            out["earlier"] = [self._summary(segment) for segment in self.result.earlier]
        if self.lost is not None:
            out["error"] = {"type": "RecordingLost", "message": explain(self.lost)}
        told = {**telemetry_to_json(self.inbox), **page_to_json(self.inbox)}
        return out | {"total_s": self.total_ns / NS_PER_S} | told

    def _summary(self, result: RunResult) -> dict[str, Any]:
        saved = [str(path) for path in result.checkpoints]
        return {
            "scenario": self.options.scenario,
            "reason": result.reason,
            "simulated_s": result.ended.seconds,
            "wall_s": result.wall_ns / NS_PER_S,
            "times_real_time": result.speed,
            "overruns": result.overruns,
            "late": result.late,
            "missed": result.missed,
            **faults_to_json(result.system.faults),
            "recording": None if result.path is None else str(result.path),
            **({"waiting": result.waiting} if result.waiting else {}),
            **({"told": told_to_json(result)} if result.told else {}),
            **({"checkpoints": saved} if saved else {}),
            **(strict_to_json(result) if self.options.strict else {}),
            "certificate": result.certificate.to_json(),
        }

    def _headline(self, result: RunResult, total: str = "") -> str:
        """Return one line about a segment; it names overruns first if the run was paced."""
        paced = result.certificate.paced
        simulated = (result.ended.ns - result.began.ns) / NS_PER_S
        back = result.restored
        return (
            f"{self.options.scenario}: {simulated:g} s in "
            f"{result.wall_ns / NS_PER_S:.3g} s ({result.speed:.4g} times real time)"
            f"{total}; "
            + (f"overruns {result.overruns}, " if paced else "")
            + f"late answers {result.late}, missed requests {result.missed}"
            + self._early(result)
            + ("" if back is None else f"; went back to {back.tag.seconds:g} s")
        )

    def print(self, more: Callable[[], None] | None = None) -> None:
        """Print the summary as text; ``more`` prints the command's own lines before the files."""
        result = self.result
        for segment in result.earlier:
            click.echo(self._headline(segment))
            _print_files(segment)
        click.echo(self._headline(result, f", {self.total_ns / NS_PER_S:.2f} s with start-up"))
        if result.certificate.paced:
            console().print(result.certificate.table())
        elif self.options.verbose:
            click.echo(f"engine: {result.certificate.engine}")
        print_told(result)
        print_waiting(result)
        if more is not None:
            more()
        if self.options.strict:
            print_strict(result.segments)
        print_faults(result.system.faults)
        if self.inbox is not None and self.inbox.trouble:
            click.echo(f"remote control was lost during the run: {self.inbox.trouble}")
        if viewed := telemetry_to_json(self.inbox):
            click.echo(telemetry_line(viewed["telemetry"], viewed["looks_lost"]))
        if page := page_to_json(self.inbox):
            click.echo(page_line(page["web"]))
        _print_files(result)
        if result.path is not None:
            typed = f'"{result.path}"' if " " in str(result.path) else result.path
            click.echo(f"next: rtsim report {typed}")

    @property
    def lost(self) -> RecordingError | None:
        """The error that cut off the first incomplete recording; ``None`` if all are complete."""
        return next((one.lost for one in self.result.segments if one.lost is not None), None)

    def _early(self, result: RunResult) -> str:
        """Return text that says what stopped the run before its end; empty if nothing did."""
        if result.reason == "interrupted":
            return ", interrupted"
        if result.reason == "quit":
            asked = f" of {self.options.until} s" if self.options.until is not None else ""
            return f", ended by the command quit at {result.ended.seconds:g} s{asked}"
        return f"; the run {result.ending}" if result.ending.failed else ""

    @property
    def _cut_short(self) -> bool:
        """True if the run was stopped before the end given with ``--until``.

        Without ``--until``, the command quit and a pilot's Esc are the run's regular end.
        """
        reason = self.result.reason
        return reason == "interrupted" or (reason == "quit" and self.options.until is not None)

    @property
    def status(self) -> int:
        """The exit status of the command."""
        if self.lost is not None:
            return FAILED
        if self._cut_short:
            return INTERRUPTED
        return NO if self._refused or self._guard_failed else 0

    @property
    def why(self) -> str:
        """Why the exit status is not 0; empty if it is 0."""
        if self.lost is not None:
            return explain(self.lost)
        if self._cut_short:
            return f"the run {self.result.ending}"
        failed = [f"the run {self.result.ending}"] if self._guard_failed else []
        return "; ".join([*failed, *self._refused])

    @property
    def _guard_failed(self) -> bool:
        """True if a terminal guard that declares a failure ended the run."""
        return self.result.ending.failed and self.result.error is None

    @property
    def _refused(self) -> list[str]:
        """Return the warnings for which ``--strict`` exits with status 1, without duplicates."""
        found = [text for one in self.result.segments for text in one.warnings]
        return list(dict.fromkeys([*found, *self.doubts])) if self.options.strict else []

    def exit(self) -> None:
        """Exit the process with the run's exit status if it is not 0."""
        if self.lost is not None:
            click.secho(f"Error: {explain(self.lost)}", err=True, fg="red")
        if self._refused:
            click.secho(f"Error: --strict: {'; '.join(self._refused)}", err=True, fg="red")
        if self.status:
            sys.exit(self.status)


def _print_files(result: RunResult) -> None:
    if result.path is None:
        return
    click.echo(f"recording: {result.path}")
    if result.checkpoints:
        many, last = len(result.checkpoints), result.checkpoints[-1]
        click.echo(f"checkpoints: {many}, the last in {last}")
