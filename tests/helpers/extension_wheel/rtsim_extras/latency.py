"""A latency model: one of two delays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class TwoDelays:
    """``first`` or ``second`` s, each with the same probability."""

    first: float
    second: float
    ordered: bool = field(default=True, init=False)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        chosen = self.first if stream.random() < 0.5 else self.second
        return (round(chosen * 1e9),)
