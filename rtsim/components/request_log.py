"""What a controller that lives elsewhere was asked since its start, so that it can be asked again.

Its memory is not known here.  Started anew and fed the same inputs in the same order it comes to
the same memory; a checksum of its answers says whether it did.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

_ROWS = 1024
MOST_BYTES = 256 << 20
"""Of inputs that are kept while running: 90 minutes at 1 kHz with four inputs."""


class RequestLog:
    """The tags and inputs of every step since the start, while they are fewer than some bytes."""

    def __init__(self, inputs: int, most_bytes: int = MOST_BYTES) -> None:
        self.width = inputs
        self._most = max(_ROWS, most_bytes // (8 * (inputs + 2)) // _ROWS * _ROWS)
        self._tags: list[NDArray[np.int64]] = []
        self._values: list[NDArray[np.float64]] = []
        self._flat: tuple[list[NDArray[Any]], list[NDArray[Any]]] = [], []
        """The same blocks as vectors: made when a block is, not when thousands are saved."""
        self.steps = 0
        """All of them, the forgotten ones too."""
        self.open = False
        """The last step has no answer yet."""
        self.asked = 0
        """So often its answer was asked for in vain."""
        self.checksum: int | None = 0
        """CRC-32 over all answers; ``None`` where one is not known."""

    def add(self, tag: Tag, inputs: Vector) -> None:
        """A step was asked for."""
        row = self.steps % _ROWS
        if row == 0:
            self._tags.append(np.empty((_ROWS, 2), np.int64))
            self._values.append(np.empty((_ROWS, self.width)))
            self._flat[0].append(self._tags[-1].reshape(-1))
            self._flat[1].append(self._values[-1].reshape(-1))
            if len(self._tags) * _ROWS > self._most:
                del self._tags[0], self._values[0], self._flat[0][0], self._flat[1][0]
        self._tags[-1][row] = tag
        self._values[-1][row] = inputs
        self.steps += 1
        self.open, self.asked = True, 0

    def heard(self, answer: Vector | None) -> None:
        """What was said of the last step; ``None``: nothing yet."""
        if answer is None:
            self.asked += 1
            return
        self.open = False
        if self.checksum is not None:
            self.checksum = zlib.crc32(answer.tobytes(), self.checksum)

    @property
    def forgotten(self) -> int:
        """Steps before the first that is kept."""
        return self.steps - (len(self._tags) * _ROWS - self._spare)

    @property
    def _spare(self) -> int:
        """Rows of the last block that are free."""
        return -self.steps % _ROWS

    @property
    def tags(self) -> NDArray[np.int64]:
        """(k, 2): ns and microstep."""
        rows: NDArray[np.int64] = self._joined(self._tags, (0, 2), np.int64)
        return rows

    @property
    def inputs(self) -> NDArray[np.float64]:
        """(k, m), as many as are kept."""
        rows: NDArray[np.float64] = self._joined(self._values, (0, self.width), np.float64)
        return rows

    def _joined(self, blocks: Sequence[NDArray[Any]], none: tuple[int, int], type: Any) -> Any:
        if not blocks:
            return np.empty(none, type)
        rows = np.concatenate(blocks)
        return rows[: len(rows) - self._spare]

    def save(self) -> dict[str, Any]:
        """Plain data and vectors.  They are views of rows that nobody writes any more: no copy."""
        return {
            "steps": self.steps,
            "open": self.open,
            "asked": self.asked,
            "checksum": self.checksum,
            "tags": self._views(0, 2),
            "inputs": self._views(1, self.width),
        }

    def _views(self, which: int, width: int) -> list[NDArray[Any]]:
        whole = self._flat[which].copy()
        if self._spare:
            whole[-1] = whole[-1][: (_ROWS - self._spare) * width]
        return whole


def steps_of(saved: Mapping[str, Any], width: int, name: str) -> list[tuple[Tag, Vector]]:
    """Every step of a saved history: its tag and inputs (m,).

    Raises :class:`ControllerError` where the first ones are no longer there, or it is of another
    controller.
    """
    tags = _rows(saved["tags"], 2, np.int64)
    inputs = _rows(saved["inputs"], width, np.float64) if width else np.empty((len(tags), 0))
    if len(tags) != len(inputs):
        raise ControllerError(
            f"{name}: {len(tags)} tags and {len(inputs)} rows of {width} inputs were saved; "
            "it has other inputs now"
        )
    gone = saved["steps"] - len(tags)
    if gone:
        raise ControllerError(
            f"{name} ran {saved['steps']} steps, and the inputs of the first {gone} were not kept "
            f"(at most {MOST_BYTES >> 20} MB are): it cannot be fed them again; go on from an "
            "earlier checkpoint"
        )
    return [(Tag(int(ns), int(step)), row) for (ns, step), row in zip(tags, inputs, strict=True)]


def _rows(blocks: Sequence[NDArray[Any]], width: int, type: Any) -> NDArray[Any]:
    flat = np.concatenate([np.empty(0, type), *blocks])
    return flat[: len(flat) // width * width].reshape(-1, width)


def feed(
    saved: Mapping[str, Any],
    history: RequestLog,
    name: str,
    send: Callable[[Tag, Vector], None],
    receive: Callable[[Tag], Vector | None],
) -> None:
    """Ask a controller that was started anew for every step of ``saved``, one after the other.

    ``send`` and ``receive`` keep ``history``.  An answer that was under way is left under way.
    Raises :class:`ControllerError` where it does not answer, or answers otherwise than it did.
    """
    steps = steps_of(saved, history.width, name)
    for k, (tag, inputs) in enumerate(steps):
        send(tag, inputs)
        if k == len(steps) - 1 and saved["open"]:
            break
        if receive(tag) is None:
            raise ControllerError(f"{name} did not answer the step of {tag} when it was fed again")
    if None not in (saved["checksum"], history.checksum) and (
        saved["checksum"] != history.checksum
    ):
        raise ControllerError(
            f"{name} was fed its {len(steps)} steps again and answered otherwise than it did: "
            "something beside its inputs decides (a clock, memory that was never set, another "
            "build); it cannot be restored"
        )
    history.asked, history.checksum = saved["asked"], saved["checksum"]
