"""Log of the requests to an external controller, to restore its memory.

The memory of an external controller cannot be read. A new controller with the same inputs in the
same order has the same memory. A checksum shows whether the answers of the new controller are the
same.
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
"""Limit of the stored inputs of a run, bytes: 90 minutes at 1 kHz with four inputs."""


class RequestLog:
    """Tags and inputs of the latest requests, in at most ``most_bytes``."""

    def __init__(self, inputs: int, most_bytes: int = MOST_BYTES) -> None:
        self.width = inputs
        self._most = max(_ROWS, most_bytes // (8 * (inputs + 2)) // _ROWS * _ROWS)
        self._tags: list[NDArray[np.int64]] = []
        self._values: list[NDArray[np.float64]] = []
        self._flat: tuple[list[NDArray[Any]], list[NDArray[Any]]] = [], []
        """Flat views of all arrays of tags and inputs, made early to speed up checkpoints."""
        self.steps = 0
        """Number of steps since the start, including steps that are no longer stored."""
        self.open = False
        """True if the last step has no answer yet."""
        self.asked = 0
        """Number of ``receive`` calls that returned no answer to the last step."""
        self._checksum: int | None = 0
        self._unsummed = b""
        """The latest answer, if the checksum does not contain it yet."""

    def add(self, tag: Tag, inputs: Vector) -> None:
        row = self.steps % _ROWS or self._begin()
        tags = self._flat[0][-1]  # two numbers are faster than a row
        tags[2 * row], tags[2 * row + 1] = tag
        self._values[-1][row] = inputs
        self.steps += 1
        self.open, self.asked = True, 0
        if self._unsummed:
            self._sum()

    def _sum(self) -> None:
        if self._checksum is not None:
            self._checksum = zlib.crc32(self._unsummed, self._checksum)
        self._unsummed = b""

    @property
    def checksum(self) -> int | None:
        """CRC-32 of all answers, or ``None`` if an answer is unknown."""
        self._sum()
        return self._checksum

    @checksum.setter
    def checksum(self, value: int | None) -> None:
        self._checksum, self._unsummed = value, b""

    def _begin(self) -> int:
        self._tags.append(np.empty((_ROWS, 2), np.int64))
        self._values.append(np.empty((_ROWS, self.width)))
        self._flat[0].append(self._tags[-1].reshape(-1))
        self._flat[1].append(self._values[-1].reshape(-1))
        if len(self._tags) * _ROWS > self._most:
            del self._tags[0], self._values[0], self._flat[0][0], self._flat[1][0]
        return 0

    def extend(
        self, ns: NDArray[np.int64], inputs: NDArray[np.float64], answers: NDArray[np.float64]
    ) -> None:
        """Add k requests at microstep 0 of the times ``ns`` (k,), with ``inputs`` (k, m).

        ``answers`` has a row for each request; the last row can be missing.
        """
        done = 0
        while done < len(ns):
            row = self.steps % _ROWS or self._begin()
            count = min(_ROWS - row, len(ns) - done)
            self._tags[-1][row : row + count, 0] = ns[done : done + count]
            self._tags[-1][row : row + count, 1] = 0
            self._values[-1][row : row + count] = inputs[done : done + count]
            self.steps += count
            done += count
        if done:
            self.open, self.asked = len(answers) < done, 0
        if self.checksum is not None:
            self.checksum = zlib.crc32(np.ascontiguousarray(answers).tobytes(), self.checksum)

    def heard(self, answer: Vector | None) -> None:
        """Add the answer (n,) to the last request, or ``None`` for no answer yet."""
        if answer is None:
            self.asked += 1
            return
        self.open = False
        if self._unsummed:
            self._sum()
        self._unsummed = answer.tobytes()  # summed while the controller runs its next step

    @property
    def forgotten(self) -> int:
        """Number of requests that are no longer stored."""
        return self.steps - (len(self._tags) * _ROWS - self._spare)

    @property
    def _spare(self) -> int:
        return -self.steps % _ROWS

    @property
    def tags(self) -> NDArray[np.int64]:
        """Tags of the stored requests, shape (k, 2): ns and microstep."""
        rows: NDArray[np.int64] = self._joined(self._tags, (0, 2), np.int64)
        return rows

    @property
    def inputs(self) -> NDArray[np.float64]:
        """Inputs of the stored requests, shape (k, m)."""
        rows: NDArray[np.float64] = self._joined(self._values, (0, self.width), np.float64)
        return rows

    def _joined(self, blocks: Sequence[NDArray[Any]], none: tuple[int, int], type: Any) -> Any:
        if not blocks:
            return np.empty(none, type)
        rows = np.concatenate(blocks)
        return rows[: len(rows) - self._spare]

    def save(self) -> dict[str, Any]:
        """Return the log as plain data."""
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
    """Return tag and inputs (m,) of each request in a saved log.

    Raises ``ControllerError`` if the log is incomplete.
    """
    tags = _rows(saved["tags"], 2, np.int64)
    inputs = _rows(saved["inputs"], width, np.float64) if width else np.empty((len(tags), 0))
    if len(tags) != len(inputs):
        raise ControllerError(
            f"the saved request log of {name} has {len(tags)} tags, but {len(inputs)} rows of "
            f"{width} inputs: the inputs of the controller have changed since; restore with "
            "the scenario that was saved"
        )
    gone = saved["steps"] - len(tags)
    if gone:
        raise ControllerError(
            f"{name} cannot be restored: it ran {saved['steps']} steps, and the inputs of the "
            f"first {gone} were not kept (at most {MOST_BYTES >> 20} MB are kept); resume from an "
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
    """Repeat all requests of a saved log with a new controller.

    ``send`` and ``receive`` must add each request to ``history``. A request without an answer stays
    pending. A controller that does not answer, or answers differently, raises
    :class:`ControllerError`.
    """
    steps = steps_of(saved, history.width, name)
    for k, (tag, inputs) in enumerate(steps):
        send(tag, inputs)
        if k == len(steps) - 1 and saved["open"]:
            break
        if receive(tag) is None:
            raise ControllerError(
                f"{name} cannot be restored: its steps were repeated, and it gave no answer to the "
                f"step of {tag}"
            )
    if None not in (saved["checksum"], history.checksum) and (
        saved["checksum"] != history.checksum
    ):
        raise ControllerError(
            f"{name} cannot be restored: its {len(steps)} steps were repeated and gave other "
            "answers. Its answers therefore depend on more than its inputs: on a clock, on "
            "uninitialized memory, or on another build"
        )
    history.asked, history.checksum = saved["asked"], saved["checksum"]
