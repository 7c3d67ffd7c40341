"""Who is held against whom, as reports call them."""

from __future__ import annotations

from typing import NamedTuple

DESIGN = "design"


class Sides(NamedTuple):
    """The names of both: of what is taken as right, and of what has to do the same."""

    design: str = DESIGN
    translation: str = "C"

    @property
    def aim(self) -> str:
        """What the translation ought to do: ``what its design does``."""
        whose = "its design" if self.design == DESIGN else f"the {self.design}"
        return f"what {whose} does"

    @property
    def gap(self) -> str:
        """The difference of the two."""
        return f"{self.translation} - {self.design}"


C_AGAINST_DESIGN = Sides()
