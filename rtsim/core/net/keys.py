"""CURVE keys in files: who may talk to what serves beyond this machine."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from rtsim.core.errors import ScenarioError

CLIENT = ".client"
"""Ends the name of the file that goes to the other machine."""


@dataclass(frozen=True)
class Keys:
    """CURVE keys (Z85 text, 40 characters) of this end, and the public one of who serves.

    ``client`` is whom a server admits: nobody else, whatever else they know.
    """

    public: str
    secret: str
    server: str
    client: str = ""

    def save(self, path: Path) -> None:
        """Into a new file that only its owner can read; :class:`ScenarioError` where it exists."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise ScenarioError(f"keys cannot be written to {path}: {error.strerror}") from None
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def load(cls, path: Path) -> Keys:
        """Read a file; :class:`ScenarioError` where it holds no keys."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ScenarioError(
                f"{path}: {error.strerror}; rtsim keys FILE writes FILE, and FILE{CLIENT} "
                "for who connects"
            ) from None
        except ValueError as error:
            raise ScenarioError(f"{path} holds no keys: {error}") from None
        names = ("public", "secret", "server")
        if not isinstance(data, dict) or not all(_is_key(data.get(name)) for name in names):
            raise ScenarioError(f"{path} holds no keys: {', '.join(names)}, 40 characters each")
        client = data.get("client", "")
        public, secret, server = (str(data[name]) for name in names)
        return cls(public, secret, server, client if _is_key(client) else "")


def _is_key(text: object) -> bool:
    return isinstance(text, str) and len(text) == 40 and text.isascii()
