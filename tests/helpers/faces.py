"""The packages that pages and examples import from; docs/api/README.md has the table."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TABLE = (ROOT / "docs/api/README.md").read_text(encoding="utf-8")
LISTED = tuple(re.findall(r"^\| \[([a-z0-9_.]+)\]\(", _TABLE, re.M))
"""The packages of the table."""
FACES = tuple(name for name in LISTED if name != "rtsim.models")
"""Those with a list of public names; rtsim.models has modules instead."""
