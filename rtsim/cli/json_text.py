"""JSON text that is easy to read: one line for each key and for each row of numbers."""

from __future__ import annotations

import json
from typing import Any


def layout(data: Any, indent: str = "") -> str:
    """Return ``data`` as strict JSON text, indented by ``indent``.

    An object, or a list that contains lists or objects, takes one line for each entry; a list of
    numbers takes one line.  Raises :class:`ValueError` for NaN and infinity.
    """
    deeper = indent + "  "
    if isinstance(data, dict) and data:
        lines = [f"{deeper}{json.dumps(str(k))}: {layout(v, deeper)}" for k, v in data.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(data, list | tuple) and any(isinstance(v, dict | list | tuple) for v in data):
        lines = [deeper + layout(v, deeper) for v in data]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(data, allow_nan=False)
