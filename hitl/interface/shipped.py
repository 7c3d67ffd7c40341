"""The project's own C: beside the packages in a checkout, inside of them where installed."""

from __future__ import annotations

from pathlib import Path

_HITL = Path(__file__).parents[1]
_INSTALLED, _CHECKOUT = _HITL / "firmware" / "c", _HITL.parent / "firmware"
FIRMWARE = _CHECKOUT if (_CHECKOUT / "board" / "board.h").is_file() else _INSTALLED


def found(path: Path) -> Path:
    """``path``; or, where there is nothing and it begins with ``firmware/``, what ships there."""
    if path.parts[:1] == ("firmware",) and not path.exists():
        shipped = FIRMWARE.joinpath(*path.parts[1:])
        return shipped if shipped.exists() else path
    return path


def ships(path: Path) -> bool:
    """It is one of these files."""
    return FIRMWARE.resolve() in path.resolve().parents
