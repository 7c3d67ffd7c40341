"""What commands share that take checkpoints or go on from one."""

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
    help="Keep the whole run each S simulated seconds, beside the recording (docs/checkpoints.md).",
)
at_option = click.option(
    "--checkpoint-at",
    metavar="T",
    multiple=True,
    help="Keep the whole run at the first tag at or after T s; may be given several times.",
)


rewind_option = click.option(
    "--rewind",
    metavar="S",
    default=None,
    help="Keep the last S seconds in memory, for the command restore; implies --control.",
)


VIEWED_S = "60"
"""What a run that is viewed keeps in memory, unless --rewind says otherwise."""


@dataclass(frozen=True)
class Wanted:
    """Which checkpoints were asked for.  ``told``: commands may ask for more on the way."""

    every: str | None
    at: tuple[str, ...]
    told: bool = False
    rewind: str | None = None
    """Span of the ring in memory, s."""
    viewed: bool = False
    """Somebody at a window may go back: to the beginning too, and without having asked for it."""

    def past(self, start: Checkpoint | None) -> CheckpointHistory:
        """What the flight can go back to."""
        if self.viewed:
            asked = self.rewind is not None
            return CheckpointHistory(
                self.rewind or VIEWED_S, start, first=True, if_savable=not asked
            )
        return CheckpointHistory(self.rewind, start)

    def taking(
        self, recording: Path | None, past: CheckpointHistory, start: Checkpoint | None
    ) -> Taking | None:
        """Of the leg that goes on from ``start`` and is recorded there.

        ``None`` where nothing can ask for one.
        """
        if recording is not None:
            if self.every is None and not self.at and not self.told:
                return None
            files = Files(recording, start)
            past.add(files)
            return Taking(files, every=self.every, at=self.at, past=past)
        if self.every is not None or self.at:
            raise ScenarioError(
                "checkpoints lie beside a recording, and there is none: leave --no-record out"
            )
        return None if past.ring is None else Taking(None, past=past)


def in_a_file(checkpoint: Checkpoint, recording: Path | None) -> Checkpoint:
    """The checkpoint in a file that the recording can name."""
    if checkpoint.source != "memory" or recording is None:
        return checkpoint
    path = checkpoint.save(path_beside(recording, checkpoint.ns))
    return replace(checkpoint, source=str(path))


@dataclass(frozen=True)
class GoingOn:
    """A checkpoint, and the scenario that flies on from it."""

    checkpoint: Checkpoint
    scenario: Scenario

    @classmethod
    def open(cls, checkpoint: Checkpoint, force: bool) -> GoingOn:
        """Load its scenario; says on stderr where bits are not promised."""
        from rtsim.record.fingerprint import differences, fingerprint
        from rtsim.runs.resume import live_scenario

        header = checkpoint.header
        scenario = live_scenario(header, checkpoint.source, force)
        for line in differences(header.get("fingerprint", {}), fingerprint()):
            click.secho(f"note: bits are not promised: {line}", err=True, fg="yellow")
        return cls(checkpoint, scenario)

    @property
    def reference(self) -> str:
        """The scenario that flies on: the checkpoint's own, or the one of ``--scenario``."""
        return str(self.scenario.origin["reference"])

    def number(self, key: str) -> int:
        """``seed``, ``until`` or ``compile`` of the run."""
        try:
            return int(self.checkpoint.header[key])
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"{self.checkpoint.source} does not say its {key}") from None

    def until(self, asked: str | None) -> str:
        """When the run ends: as asked for, or as it would have ended."""
        return f"{self.number('until')}/{NS_PER_S}" if asked is None else asked
