"""An overrun policy: slip, but only so often in the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from rtsim.timing.policy import Action, LateTag, Policy


@dataclass(frozen=True)
class SlipInAll(Policy):
    """Slip at each late frame, at most ``most`` times in the whole run."""

    most: int = 3
    name: ClassVar[str] = "slip_in_all"
    usage: ClassVar[str] = "slip_in_all:3 (overruns in all)"

    @classmethod
    def parse(cls, argument: str) -> Self:
        return cls(int(argument)) if argument else cls()

    def answer(self, late: LateTag) -> Action:
        return "slip" if late.total <= self.most else "abort"

    def remedy(self, consecutive: int) -> str:  # noqa: ARG002
        return f"--overrun {self.name}:{2 * self.most} allows more"

    def __str__(self) -> str:
        return f"{self.name}:{self.most}"
