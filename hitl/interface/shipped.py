"""Find rtsim's own C code, in a checkout or in the installed package."""

from __future__ import annotations

from pathlib import Path

_HITL = Path(__file__).parents[1]
_INSTALLED, _CHECKOUT = _HITL / "firmware" / "c", _HITL.parent / "firmware"
FIRMWARE = _CHECKOUT if (_CHECKOUT / "src" / "rtsim" / "board.h").is_file() else _INSTALLED


def found(path: Path) -> Path:
    """Return ``path``; for a missing file in ``firmware/``, return rtsim's own file."""
    if path.parts[:1] == ("firmware",) and not path.exists():
        shipped = FIRMWARE.joinpath(*path.parts[1:])
        return shipped if shipped.exists() else path
    return path


def ships(path: Path) -> bool:
    return FIRMWARE.resolve() in path.resolve().parents
