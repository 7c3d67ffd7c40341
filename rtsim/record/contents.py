"""What a file declares and stores beside its rows: the tracks, and the events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from rtsim.core.errors import RecordingError
from rtsim.record.chunks import Messages
from rtsim.record.event import Event
from rtsim.record.salvage import Salvaged
from rtsim.record.schema import EVENT_TOPIC, MOST_COLUMNS, TrackSpec

_LEAST_EVENTS = 1 << 20
_EVENTS_DENSEST = 16
"""The events may take 1 MiB plus this number times the size of the file."""
_MOST_COLUMNS = 2 * MOST_COLUMNS
"""Greatest number of columns of all tracks together."""


def declared_tracks(path: Path, header: Mapping[str, Any]) -> list[TrackSpec]:
    """Return the layout of each track that the header declares.

    Columns are counted first, because few bytes can declare arrays of any size.  Raises
    :class:`RecordingError` for too many columns.
    """
    columns = sum(
        len(track["integers"]) + sum(math.prod(s.get("shape", ())) for s in track["signals"])
        for track in header["tracks"]
    )
    if columns > _MOST_COLUMNS:
        raise RecordingError(
            f"{path} is refused: it declares {columns} columns, but at most {_MOST_COLUMNS} "
            "are accepted, because the file could fill the memory of this machine"
        )
    return [TrackSpec.from_json(data) for data in header["tracks"]]


def stored_events(path: Path, parts: Salvaged) -> tuple[list[Event], str | None]:
    """Return the events, and what is damaged in them.

    Raises :class:`RecordingError` for too many.
    """
    messages = parts.topics.get(EVENT_TOPIC, Messages(parts.chunks))
    most = _LEAST_EVENTS + _EVENTS_DENSEST * path.stat().st_size
    if messages.total > most:
        raise RecordingError(
            f"{path} is refused: its events have {messages.total} bytes, but at most {most} "
            "are accepted, because the file could fill the memory of this machine"
        )
    out: list[Event] = []
    for ns, data in messages.each():
        try:
            out.append(Event.decode(ns, data))
        except DecodeError as error:
            return out, f"event {len(out)} is damaged ({error})"
    return out, None
