"""The names of the two sides of a comparison, as files and reports use them."""

from __future__ import annotations

from typing import NamedTuple

DESIGN = "design"
"""The name of the reference model in JSON and in the class names of JUnit files."""
REFERENCE_MODEL = "reference model"
"""The name of the reference model in texts and plots."""


class Sides(NamedTuple):
    """The names of both sides: ``design`` is the reference, ``translation`` is compared with it."""

    design: str = DESIGN
    translation: str = "C"

    @property
    def aim(self) -> str:
        """The aim of the translation as a clause: ``what its reference model does``."""
        whose = f"its {REFERENCE_MODEL}" if self.design == DESIGN else f"the {self.design}"
        return f"what {whose} does"

    @property
    def reference(self) -> str:
        """The name of the reference in texts: ``reference model``, or ``host C`` for a board."""
        return displayed(self.design)

    @property
    def shown(self) -> tuple[str, str]:
        """Both names as they appear in texts."""
        return self.reference, self.translation

    @property
    def gap(self) -> str:
        """Label of the difference of both sides, such as ``C - reference model``."""
        return f"{self.translation} - {self.reference}"

    @property
    def heading(self) -> str:
        """The name of the difference in a table, where space is short: ``C - reference``."""
        return f"{self.translation} - {'reference' if self.design == DESIGN else self.design}"

    @property
    def key(self) -> str:
        """The name of the difference in the class names of JUnit files: ``C - design``."""
        return f"{self.translation} - {self.design}"


def displayed(side: str) -> str:
    """Return the name of a side in texts."""
    return REFERENCE_MODEL if side == DESIGN else side


C_AGAINST_DESIGN = Sides()
