"""Diagrams: blocks wired by name.  A diagram becomes a Model.

::

    d = Diagram("oscillator")
    d.add("v", Integrator(1.0), "acceleration")
    d.add("x", Integrator(), "v")
    d.add("acceleration", Gain(-4.0), "x")
    model = d.model()

Blocks may be added in any order, and a source may be a block that is added later.  A diagram can be
a block of another diagram.  The inner diagram is flattened, so it adds no delay, and algebraic
loops through it are found.
"""

from __future__ import annotations

from rtsim.blocks.wiring import WiredBlocks
from rtsim.equations.model import Model
from rtsim.record.reports.drawing import Drawing


class Diagram(WiredBlocks):
    """Blocks, the wires between them, inputs and outputs.

    ``assumptions`` and ``limits`` become those of the model.
    """

    def model(self) -> Model:
        """Return the diagram as a :class:`Model`.

        Raises :class:`ScenarioError` if the diagram is incomplete or has an algebraic loop; the
        message names the blocks.
        """
        from rtsim.blocks.generate import generate  # a diagram can be drawn without a compiler

        return generate(self)

    def draw(self) -> Drawing:
        """Return a drawing of the diagram, which a notebook shows; its ``svg`` is a picture."""
        from rtsim.blocks.drawing import graph

        return Drawing(graph(self))

    def mermaid(self) -> str:
        """Return a drawing of the diagram as Mermaid text for Markdown pages."""
        return self.draw().mermaid

    def dot(self) -> str:
        """Return a drawing of the diagram as Graphviz text; ``dot -Tsvg`` makes a picture of it."""
        return self.draw().dot

    def _repr_html_(self) -> str:
        return self.draw().html()
