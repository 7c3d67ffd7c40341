"""What the tests of rigs share."""

from __future__ import annotations

from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "hitl" / "rigs" / "illumination"
RIG = EXAMPLE / "illumination.toml"


def changed(folder: Path, old: str, new: str) -> Path:
    """The example's rig file with one change, and its firmware beside it."""
    text = RIG.read_text(encoding="utf-8")
    assert text.count(old) >= 1, old
    path = folder / "illumination.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    (folder / "illumination.hex").write_bytes((EXAMPLE / "illumination.hex").read_bytes())
    return path
