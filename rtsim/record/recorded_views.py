"""The signals of views in a recording: which track and which column has each of them.

Plants, messages and external inputs have tracks.  The values of a source have none, but the
controllers that sample them do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.record.table import MESSAGES, Rows
from rtsim.record.views import View, Viewed

INPUTS = "inputs/"
"""What the names of tracks of external inputs begin with."""
_SAMPLED = ".inputs"
_OTHER = ("measured/", "stamps/")


class Place(NamedTuple):
    """The track and the column, or the array of columns, that has the values of a signal."""

    track: str
    column: str


def viewed_in(source: str, header: Mapping[str, Any], tracks: Mapping[str, Rows]) -> Viewed:
    """Return views, components and signals of the recording ``source``.

    Raises :class:`RecordingError` if the recording contains an invalid view.
    """
    signals = {owner: tracks[name].signals for owner, name in _owners(tracks)}
    sources: dict[str, list[Signal]] = {}
    for name, place in _sampled(header, tracks).items():
        owner, _, signal = name.rpartition(".")
        if owner not in signals:
            found = tracks[place.track].signals[place.column]
            sources.setdefault(owner, []).append(replace(found, name=signal))
    try:
        declared = [View.from_dict(one) for one in header.get("views") or ()]
    except (ScenarioError, TypeError) as error:
        raise RecordingError(f"the header of {source} contains an invalid view: {error}") from error
    return Viewed(
        declared, _parts(header), {**signals, **{n: Signals(*s) for n, s in sources.items()}}
    )


def places(header: Mapping[str, Any], tracks: Mapping[str, Rows]) -> dict[str, Place]:
    """Return the place of each signal and of each element of an array, by ``component.signal``."""
    out = dict(_sampled(header, tracks))
    for owner, name in _owners(tracks):
        some = tracks[name].signals
        out.update({f"{owner}.{one}": Place(name, one) for one in (*some.columns, *some.names)})
    return out


def _owners(tracks: Mapping[str, Rows]) -> Iterator[tuple[str, str]]:
    """Give component and name of each track that has signals of its own."""
    for name, track in tracks.items():
        if track.signals.size and not name.endswith(_SAMPLED) and not name.startswith(_OTHER):
            yield name.removeprefix(MESSAGES).removeprefix(INPUTS), name


def _sampled(header: Mapping[str, Any], tracks: Mapping[str, Rows]) -> dict[str, Place]:
    """Return the places of the signals that controllers sampled, by ``component.signal``."""
    out: dict[str, Place] = {}
    for name, part in _parts(header).items():
        track = f"{MESSAGES}{name}{_SAMPLED}"
        if track in tracks:
            wires = part.get("inputs")
            for column, source in (wires if isinstance(wires, Mapping) else {}).items():
                if isinstance(source, str) and column in tracks[track].signals:
                    out.setdefault(source, Place(track, column))
    return out


def _parts(header: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    scenario = header.get("scenario")
    parts = scenario.get("parts") if isinstance(scenario, Mapping) else None
    return (
        {n: p for n, p in parts.items() if isinstance(p, Mapping)}
        if isinstance(parts, Mapping)
        else {}
    )
