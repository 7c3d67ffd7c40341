"""Diagram: blocks wired by name, which becomes a Model.

::

    d = Diagram("oscillator")
    d.add("v", Integrator(1.0), "acceleration")
    d.add("x", Integrator(), "v")
    d.add("acceleration", Gain(-4.0), "x")
    model = d.model()

Blocks may be added in any order, and wires may lead to what is added later.  A diagram can be a
block of another; it is taken apart there, so that it delays nothing and hides no loop.
"""

from __future__ import annotations

from rtsim.blocks.wiring import WiredBlocks
from rtsim.equations.model import Model


class Diagram(WiredBlocks):
    """Blocks, the wires between them, and what goes in and out.

    ``assumptions`` and ``limits`` are those of the model.
    """

    def model(self) -> Model:
        """The diagram as a :class:`Model`.

        Raises :class:`ScenarioError` where it is not complete, and for an algebraic loop, by name.
        """
        from rtsim.blocks.generate import generate  # a diagram can be drawn without a compiler

        return generate(self)

    def mermaid(self) -> str:
        """The diagram drawn: Mermaid text, as Markdown pages show it."""
        from rtsim.blocks.drawing import mermaid

        return mermaid(self)

    def dot(self) -> str:
        """The diagram drawn: Graphviz text; ``dot -Tsvg`` makes a picture of it."""
        from rtsim.blocks.drawing import dot

        return dot(self)
