"""Read descriptions of CAN frames from a DBC file, with the package cantools.

cantools places the bits of raw numbers. rtsim applies scales and limits, so that exact values stay
exact.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR, getLogger
from math import isnan
from pathlib import Path
from typing import Any

from rtsim.components.frames.contract import FrameError, RawType, check_identifiers, integer
from rtsim.core.errors import ScenarioError
from rtsim.core.extras import extra
from rtsim.core.signals import Signal, Signals, Undeclared, Vector

MOST_FILE_BYTES = 1 << 24
_NOT_SENT = "VECTOR__INDEPENDENT_SIG_MSG"
"""The message in which a DBC file keeps signals that belong to no message."""


class DbcCodec:
    """The codec of a message in a DBC file.

    Its signals are those of all multiplexers. Multiplexers determine which signals a frame
    contains. All other signals keep their values.
    """

    def __init__(self, message: Any, overflow: str, source: str) -> None:
        self.name: str = message.name
        self.identifier: int = message.frame_id
        self.extended: bool = message.is_extended_frame
        self.length: int = message.length
        self.period_ns = round((message.cycle_time or 0) * 1_000_000)
        self._message, self._source = message, source
        self._raw = tuple(_raw_type(self.name, signal, overflow) for signal in message.signals)
        self.signals = Signals(
            *(_signal(s, raw) for s, raw in zip(message.signals, self._raw, strict=True))
        )
        names = self.signals.names
        self._at = {name: k for k, name in enumerate(names)}
        self._chosen_by: list[tuple[int, frozenset[int]] | None] = [
            None
            if s.multiplexer_signal is None
            else (self._at[s.multiplexer_signal], frozenset(s.multiplexer_ids or ()))
            for s in message.signals
        ]

    def encode(self, values: Vector) -> bytes:
        raw: dict[str, Any] = {}
        known: dict[int, Any] = {}
        for name, at in self._at.items():
            if self._sent(at, values, known):
                raw[name] = known[at] = self._of(at, values)
        try:
            return bytes(self._message.encode(raw, scaling=False, strict=False))
        except self._errors as error:
            raise FrameError(f"frame {self.name} cannot be made: {error}") from None

    def _of(self, at: int, values: Vector) -> int | float:
        try:
            return self._raw[at].raw(float(values[at]))
        except FrameError as error:
            raise FrameError(f"frame {self.name}: {error}") from None

    def _sent(self, at: int, values: Vector, known: dict[int, Any]) -> bool:
        chosen = self._chosen_by[at]
        if chosen is None:
            return True
        multiplexer, ids = chosen
        if not self._sent(multiplexer, values, known):
            return False
        if multiplexer not in known:
            known[multiplexer] = self._of(multiplexer, values)
        return known[multiplexer] in ids

    def decode(self, data: bytes, into: Vector) -> None:
        if len(data) != self.length:
            raise FrameError(
                f"frame {self.name} has {len(data)} bytes; its description says {self.length}"
            )
        try:
            found = self._message.decode(data, decode_choices=False, scaling=False)
        except self._errors as error:
            raise FrameError(f"frame {self.name} is malformed: {error}") from None
        values = []
        for name, raw in found.items():
            at = self._at[name]
            value = self._raw[at].value(float(raw))
            if isnan(value) or value in (float("inf"), float("-inf")):
                raise FrameError(f"frame {self.name} is malformed: {name} is {value}")
            values.append((at, value))
        for at, value in values:
            into[at] = value

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        database = extra("cantools.database", "can", "a DBC file")
        return database.errors.Error, ValueError, KeyError, OverflowError, TypeError

    @property
    def raw_types(self) -> tuple[RawType, ...]:
        return self._raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DbcCodec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        """Return a text with the name of the message and the hash of the file."""
        return f"DbcCodec({self.name}, {self._source})"


def read_dbc(path: Path, overflow: str = "error") -> dict[str, DbcCodec]:
    """Return the codecs of all messages in a DBC file, by name.

    Raises :class:`ScenarioError` if the file is not a DBC file.
    """
    database = extra("cantools.database", "can", "a DBC file")
    if path.stat().st_size > MOST_FILE_BYTES:
        raise ScenarioError(
            f"{path} has more than {MOST_FILE_BYTES} bytes, too many for a DBC file"
        )
    try:
        # cantools writes a warning of two messages with one identifier, which is an error here
        with _errors_only("cantools"):
            found = database.load_file(str(path), database_format="dbc", strict=True)
    except (database.errors.Error, database.UnsupportedDatabaseFormatError, ValueError) as error:
        told = " ".join(str(error).split())
        raise ScenarioError(f"{path} is not a valid DBC file: {told}") from None
    source = f"{path.name} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    try:
        codecs = [DbcCodec(m, overflow, source) for m in found.messages if m.name != _NOT_SENT]
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None
    if not codecs:
        raise ScenarioError(f"{path} describes no messages; a DBC file has lines BO_")
    twice = [name for name, n in Counter(codec.name for codec in codecs).items() if n > 1]
    if twice:
        raise ScenarioError(f"{path}: several messages have the name {twice[0]}; rename one")
    check_identifiers(path, codecs)
    return {codec.name: codec for codec in codecs}


@contextmanager
def _errors_only(package: str) -> Iterator[None]:
    logger = getLogger(package)
    before = logger.level
    logger.setLevel(ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _raw_type(message: str, signal: Any, overflow: str) -> RawType:
    scale, bias = float(signal.conversion.scale), float(signal.conversion.offset)
    name = f"{message}.{signal.name}"
    if signal.is_float:
        return RawType(name, 0, 0, int(signal.length), scale, bias, overflow)
    return integer(name, int(signal.length), bool(signal.is_signed), scale, bias, overflow)


def _signal(signal: Any, raw: RawType) -> Signal:
    given = signal.raw_initial
    initial = Undeclared(raw.value(0.0)) if given is None else raw.value(float(given))
    return Signal(signal.name, signal.unit or "1", initial=initial)
