"""Writes a mapping as TOML: the measured axes together with an earlier mapping."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rtsim.core import toml
from rtsim.core.signals import Signals
from rtsim.pilot.devices.calibration import MeasuredAxis
from rtsim.pilot.devices.mapping import COMMANDS, DeviceMapping, mapping_of
from rtsim.pilot.devices.sources import GAMEPAD_AXES

OWN_MAPPING = Path(__file__).with_name("aircraft.toml")
_ORDER = ("joystick", "gamepad", "buttons", "keyboard", "mouse")


def own_tables(stick: Signals) -> dict[str, Any]:
    """Return the tables of rtsim's default mapping for the values that ``stick`` has."""
    tables = toml.loads(OWN_MAPPING.read_text(encoding="utf-8"))
    return {name: table for name, table in tables.items() if name in (*stick.names, COMMANDS)}


def own_mapping(stick: Signals) -> DeviceMapping:
    """Return rtsim's default mapping for ``stick``."""
    return mapping_of(own_tables(stick), stick, str(OWN_MAPPING))


def calibrated(
    tables: Mapping[str, Any], found: Mapping[str, MeasuredAxis], stick: Signals
) -> dict[str, Any]:
    """Return ``tables`` with an entry for every value of ``stick``, using the axes in ``found``.

    The window's commands stay as they are in ``tables``.
    """
    out: dict[str, Any] = {}
    for name in stick.names:
        table = {"curve": 0.0, "trim": 0.0, **tables.get(name, {})}
        if name in found:
            table[found[name].kind] = _source(found[name])
        out[name] = table
    return out | {name: tables[name] for name in (COMMANDS,) if name in tables}


def _source(found: MeasuredAxis) -> dict[str, Any]:
    source = found.source
    low, middle, high = source.span
    named = GAMEPAD_AXES[source.axis] if found.kind == "gamepad" else source.axis
    out: dict[str, Any] = {"axis": named, **source.which.to_plain()}
    out["range"] = [low, middle, high] if found.springs else [low, high]
    out["invert"] = bool(source.invert)
    out["dead_zone"] = source.dead_zone
    if source.rate:
        out["rate"] = source.rate
    return out


def to_toml(tables: Mapping[str, Any], remarks: Iterable[str], stick: Signals) -> str:
    """Return a mapping as text for :func:`rtsim.pilot.devices.mapping.read_mapping`."""
    lines = [f"# {_one_line(remark)}" for remark in remarks]
    for name, table in tables.items():
        about = stick[name].description if name in stick else ""
        lines += ["", f"[{name}]" + (f"  # {_one_line(about)}" if about else "")]
        sources = [key for key in _ORDER if key in table]
        for key in [*sources, *(key for key in table if key not in _ORDER)]:
            lines.append(f"{key} = {_toml(table[key])}")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # JSON escapes all characters that TOML forbids, except DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return repr(value)
