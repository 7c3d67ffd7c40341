"""Files with CURVE keys, for encrypted connections to other machines."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from rtsim.core.errors import ScenarioError

CLIENT = ".client"
"""File name suffix of the client's keys, which belong on the other machine."""


@dataclass(frozen=True)
class Keys:
    """The CURVE keys of one side of a connection.

    Each key is a Z85 text of 40 characters. ``client`` is the public key of the only client that
    the server accepts.
    """

    public: str
    secret: str
    server: str
    client: str = ""

    def save(self, path: Path) -> None:
        """Write the keys to a new file that only its owner can read.

        Raises :class:`ScenarioError` if the file exists or cannot be written.
        """
        text = json.dumps(asdict(self), indent=2) + "\n"
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise ScenarioError(f"cannot write keys to {path}: {error.strerror}") from None
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def load(cls, path: Path) -> Keys:
        """Read a key file; raise :class:`ScenarioError` if ``path`` is not a key file."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ScenarioError(
                f"cannot read keys from {path}: {error.strerror}; rtsim keys FILE writes FILE "
                f"for the server and FILE{CLIENT} for the client"
            ) from None
        except ValueError as error:
            raise ScenarioError(f"{path} is not a key file: {error}") from None
        names = ("public", "secret", "server")
        if not isinstance(data, dict) or not all(_is_key(data.get(name)) for name in names):
            raise ScenarioError(
                f"{path} is not a key file: expected {', '.join(names)}, each of 40 characters"
            )
        client = data.get("client", "")
        public, secret, server = (str(data[name]) for name in names)
        return cls(public, secret, server, client if _is_key(client) else "")


def _is_key(text: object) -> bool:
    return isinstance(text, str) and len(text) == 40 and text.isascii()
