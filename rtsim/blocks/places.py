"""The two ends of a wire in a diagram; each is a block and one of its ports."""

from __future__ import annotations

from dataclasses import dataclass

Place = tuple[str, str]
"""The name of a block, and a port; the name is empty for an input of the diagram."""


@dataclass(frozen=True)
class WireEnd:
    """One end of a wire as the user wrote it; ``port`` is empty if the user gave none."""

    block: str
    port: str

    @classmethod
    def of(cls, text: str) -> WireEnd:
        block, _, port = text.partition(".")
        return cls(block, port)

    def __str__(self) -> str:
        return f"{self.block}.{self.port}" if self.port else self.block
