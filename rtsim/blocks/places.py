"""Where a wire of a diagram begins and ends: a block, and a port of it."""

from __future__ import annotations

from dataclasses import dataclass

Place = tuple[str, str]
"""A block's name and a port of it; the name is empty for the diagram's own inputs."""


@dataclass(frozen=True)
class WireEnd:
    """One end of a wire as it was written; ``port`` is empty where the block has only one."""

    block: str
    port: str

    @classmethod
    def of(cls, text: str) -> WireEnd:
        block, _, port = text.partition(".")
        return cls(block, port)

    def __str__(self) -> str:
        return f"{self.block}.{self.port}" if self.port else self.block
