"""The log of all stimuli of processes, used to run the processes again up to any tag.

A generator cannot be saved.  The state of processes follows from their set-up, their random streams
and the stimuli: inputs, parameters, messages and crossings, each with its microstep.  A checkpoint
contains the stimuli.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rtsim.core.errors import CheckpointError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

MOST_BYTES = 256 << 20
"""Maximum size of the log, bytes."""
SAMPLED = -1
"""The name index of a row with inputs and parameters; such a row is written when a value changed.
"""


class Stimuli:
    """The stimuli in the order in which they acted; ``names`` are topics and guards."""

    def __init__(self, names: Sequence[str], sizes: Mapping[str, int], sampled: int) -> None:
        self._names = list(names)
        self._index = {name: i for i, name in enumerate(names)}
        self._sizes = [sizes.get(name, 0) for name in names]
        self._sampled = sampled
        self._rows = array("q")
        """Three words for each row: ns, microstep, index of the name."""
        self._values = array("d")
        self.complete = True
        """False if the log was full, so that rows are missing."""

    def sampled(self, tag: Tag, vector: Vector) -> None:
        self._add(tag, SAMPLED, vector)

    def heard(self, tag: Tag, name: str, payload: Vector | None) -> None:
        self._add(tag, self._index[name], payload)

    def _add(self, tag: Tag, which: int, values: Vector | None) -> None:
        if 8 * (len(self._rows) + len(self._values)) > MOST_BYTES:
            self.complete = False
            return
        self._rows.extend((tag.ns, tag.step, which))
        if values is not None:
            self._values.frombytes(np.ascontiguousarray(values, dtype=np.float64).tobytes())

    def __iter__(self) -> Iterator[tuple[Tag, str | None, Vector]]:
        """Yield tag, name (``None`` for inputs and parameters) and values (none for a crossing)."""
        values = np.array(self._values)
        at = 0
        for k in range(0, len(self._rows), 3):
            ns, step, which = self._rows[k : k + 3]
            size = self._sampled if which == SAMPLED else self._sizes[which]
            name = None if which == SAMPLED else self._names[which]
            yield Tag(ns, step), name, values[at : at + size]
            at += size

    def save(self) -> dict[str, Any]:
        """Return the log as plain data and vectors."""
        return {
            "complete": self.complete,
            "names": list(self._names),
            "rows": np.array(self._rows, dtype=np.int64),
            "values": np.array(self._values, dtype=np.float64),
        }

    def restore(self, saved: Mapping[str, Any], owner: str) -> None:
        """Restore a saved log.

        Raises :class:`CheckpointError` if the log is incomplete or belongs to other processes.
        """
        if not saved["complete"]:
            raise CheckpointError(
                f"{owner} cannot be restored: its inputs and messages before this checkpoint "
                f"are more than {MOST_BYTES >> 20} MB, the limit; use an earlier checkpoint"
            )
        rows = np.asarray(saved["rows"], dtype=np.int64)
        values = np.asarray(saved["values"], dtype=np.float64)
        which = rows[2::3]
        if (
            list(saved["names"]) != self._names
            or len(rows) % 3
            or np.any((which < SAMPLED) | (which >= len(self._names)))
        ):
            raise CheckpointError(
                f"{owner} receives other messages and guards than when it was saved; "
                "restore with the scenario that was saved"
            )
        sizes = np.array([*self._sizes, self._sampled])  # the last size belongs to SAMPLED (-1)
        if int(sizes[which].sum()) != len(values):
            raise CheckpointError(
                f"{owner} has other inputs than when it was saved; "
                "restore with the scenario that was saved"
            )
        self._rows, self._values = array("q", rows.tobytes()), array("d", values.tobytes())
        self.complete = True
