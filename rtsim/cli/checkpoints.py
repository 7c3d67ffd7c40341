"""Options and classes shared by the commands that save checkpoints or continue from one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from rtsim.core.errors import CheckpointError, ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.kept import Files, path_beside
from rtsim.engine.checkpoint.past import CheckpointHistory
from rtsim.engine.checkpoint.taking import Taking
from rtsim.scenario.scenario import Scenario

every_option = click.option(
    "--checkpoint-every",
    metavar="S",
    default=None,
    help="Save a checkpoint next to the recording every S simulated seconds (docs/checkpoints.md).",
)
at_option = click.option(
    "--checkpoint-at",
    metavar="T",
    multiple=True,
    help="Save a checkpoint at the first tag at or after T simulated seconds; repeatable.",
)


rewind_option = click.option(
    "--rewind",
    metavar="S",
    default=None,
    help="Keep checkpoints of the last S simulated seconds in memory, so that 'rtsim ctl restore' "
    "can go back to them; implies --control.",
)


VIEWED_S = "60"
"""Simulated seconds that a run with a window keeps in memory, unless --rewind is given."""


@dataclass(frozen=True)
class Wanted:
    """The requested checkpoints.  ``told``: commands may request more of them during the run."""

    every: str | None
    at: tuple[str, ...]
    told: bool = False
    rewind: str | None = None
    """How many simulated seconds the checkpoints in memory cover."""
    viewed: bool = False
    """True if the run has a window, from which its user may go back even without ``--rewind``."""

    def past(self, start: Checkpoint | None) -> CheckpointHistory:
        """Return the checkpoints to which the run can go back."""
        if self.viewed:
            asked = self.rewind is not None
            return CheckpointHistory(
                self.rewind or VIEWED_S, start, first=True, if_savable=not asked
            )
        return CheckpointHistory(self.rewind, start)

    def taking(
        self, recording: Path | None, past: CheckpointHistory, start: Checkpoint | None
    ) -> Taking | None:
        """Return the object that saves checkpoints of the segment that continues from ``start``.

        ``recording`` is the file of this segment.  Returns ``None`` if no checkpoint can be
        requested.  Raises :class:`ScenarioError` for checkpoint files without a recording.
        """
        if recording is not None:
            if self.every is None and not self.at and not self.told:
                return None
            files = Files(recording, start)
            past.add(files)
            return Taking(files, every=self.every, at=self.at, past=past)
        if self.every is not None or self.at:
            raise ScenarioError(
                "checkpoints are stored next to a recording, but --no-record switches the "
                "recording off; leave --no-record out"
            )
        return None if past.ring is None else Taking(None, past=past)


def in_a_file(checkpoint: Checkpoint, recording: Path | None) -> Checkpoint:
    """Save ``checkpoint`` next to ``recording``, so that the recording can name the file."""
    if checkpoint.source != "memory" or recording is None:
        return checkpoint
    path = checkpoint.save(path_beside(recording, checkpoint.ns))
    return replace(checkpoint, source=str(path))


@dataclass(frozen=True)
class GoingOn:
    """A checkpoint and the scenario that continues from it."""

    checkpoint: Checkpoint
    scenario: Scenario

    @classmethod
    def open(cls, checkpoint: Checkpoint, force: bool) -> GoingOn:
        """Load the scenario of ``checkpoint``.

        Prints a note on stderr if the result may differ in the last bits on this machine.
        """
        from rtsim.record.fingerprint import differences, fingerprint
        from rtsim.runs.resume import live_scenario

        header = checkpoint.header
        scenario = live_scenario(header, checkpoint.source, force)
        for line in differences(header.get("fingerprint", {}), fingerprint()):
            text = f"note: results may differ in the last bits: {line}"
            click.secho(text, err=True, fg="yellow")
        return cls(checkpoint, scenario)

    @property
    def reference(self) -> str:
        """Name of the scenario to continue: from the checkpoint, or given with ``--scenario``."""
        return str(self.scenario.origin["reference"])

    def number(self, key: str) -> int:
        """Return the saved run's value of ``key``: ``seed``, ``until`` (ns) or ``compile``."""
        try:
            return int(self.checkpoint.header[key])
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"the header of {self.checkpoint.source} has no valid {key!r}; the file was "
                "written by another version of rtsim, or is damaged"
            ) from None

    def until(self, asked: str | None) -> str:
        """Return the end of the run in s: ``asked``, or by default the end of the saved run."""
        return f"{self.number('until')}/{NS_PER_S}" if asked is None else asked
