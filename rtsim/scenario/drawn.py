"""The drawing of a scenario, and what a notebook shows of it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtsim.record.reports.drawing import Drawing


class Drawn:
    """The methods of a scenario that draw it."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the scenario as plain data."""

    def draw(self) -> Drawing:
        """Return a drawing of the components, their wires and their latencies.

        A notebook shows it.  ``draw().svg`` is a picture as text, and ``draw().save("x.svg")``
        writes it.  A scenario that is not complete can be drawn too.
        """
        from rtsim.record.reports.drawing import drawn  # a run draws nothing

        return drawn(self.describe())

    def _repr_html_(self) -> str:
        from rtsim.record.reports.drawing import component_table

        return self.draw().html() + component_table(self.describe())
