"""Block diagrams: named blocks, connected by wires, which become a :class:`Model`.

docs/blocks.md has examples.
"""

from __future__ import annotations

from rtsim.blocks.algebra import Expression, Gain, Product, Quantiser, Saturation, Sum
from rtsim.blocks.block import Block, Equations, InputDelay, Port, When, Wire
from rtsim.blocks.continuous import (
    Differential,
    Integrator,
    StateSpace,
    TransferFunction,
    TransportDelay,
)
from rtsim.blocks.diagram import Diagram
from rtsim.blocks.sampled import (
    PID,
    FirstOrderHold,
    LevelCrossing,
    PeriodicSampler,
    SampledPID,
    Sampler,
    UnitDelay,
    ZeroOrderHold,
)
from rtsim.blocks.sources import (
    Constant,
    EventAt,
    EventClock,
    Noise,
    Ramp,
    Sine,
    SquareClock,
    Step,
    Waveform,
)

__all__ = [
    "PID",
    "Block",
    "Constant",
    "Diagram",
    "Differential",
    "Equations",
    "EventAt",
    "EventClock",
    "Expression",
    "FirstOrderHold",
    "Gain",
    "InputDelay",
    "Integrator",
    "LevelCrossing",
    "Noise",
    "PeriodicSampler",
    "Port",
    "Product",
    "Quantiser",
    "Ramp",
    "SampledPID",
    "Sampler",
    "Saturation",
    "Sine",
    "SquareClock",
    "StateSpace",
    "Step",
    "Sum",
    "TransferFunction",
    "TransportDelay",
    "UnitDelay",
    "Waveform",
    "When",
    "Wire",
    "ZeroOrderHold",
]
