"""Base class of controllers, which declare signals as fields and the step as a method."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

from rtsim.components.controller import PythonController
from rtsim.core.errors import ModelError
from rtsim.core.tag import Duration, Period
from rtsim.named.fields import INPUT, MEMORY, OUTPUT, PARAMETER, NamedSignals
from rtsim.named.lowering import TIME, VECTORS, Form, Lowered, lowered, made_once


class Controller(NamedSignals):
    """Base class of a controller whose method ``step(self)`` computes outputs once per period.

    Declare fields with :func:`rtsim.input`, :func:`rtsim.output`, :func:`rtsim.parameter` and
    :func:`rtsim.memory`.  ``step`` can read all fields, and assigns outputs and memory.

    The class attribute ``period = 0.1`` declares a sample period of 0.1 s. The method ``step``
    reads the period as ``self.period``. ``class Brake(rtsim.Controller, compile=True)`` compiles
    the method ``step`` to machine code.

    Example:
        class Brake(Controller):
            speed = input("m/s")
            force = output("N")

            def step(self):
                self.force = -2.0 * self.speed
    """

    roles = frozenset((MEMORY, INPUT, PARAMETER, OUTPUT))
    given_roles = roles
    """Roles with initial values, including outputs: these keep theirs until the first message."""
    _compile: ClassVar[bool] = False

    def __init_subclass__(cls, compile: bool | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if compile is not None:
            cls._compile = compile

    def step(self) -> None:
        raise NotImplementedError

    def sample_period(self, given: Duration | Period | None) -> Any:
        """Return the sample period (s) that the class declares, or else ``given``.

        Raises ``ModelError`` if the class declares another period than ``given``.
        """
        own = getattr(type(self), "period", None)
        if not isinstance(own, float | int | str | Fraction | Period):
            return given
        if given is not None and Period.of(given) != Period.of(own):
            raise ModelError(
                f"{type(self).__name__}.period is {own!r} s, but period={given!r} is given; leave "
                f"one of them out. If {type(self).__name__}.period is not the sample period, "
                "rename this attribute"
            )
        return own

    def controller(self, name: str = "") -> PythonController:
        """Return the controller in the form of a ``rtsim.PythonController``.

        Mistakes in the class raise :class:`ModelError`.
        """
        cls: Any = type(self)
        inputs, outputs, memory = (
            cls.signals(role).beginning_with(self.given(role)) for role in (INPUT, OUTPUT, MEMORY)
        )
        return PythonController(
            made_once(cls, _law),
            inputs,
            outputs,
            parameters=cls.signals(PARAMETER),
            memory=memory,
            values=self.given(PARAMETER),
            compile=cls._compile,
            name=name or cls.default_name(),
        )


def _law(cls: Any, made: Lowered) -> Any:
    if cls.step is Controller.step:
        raise ModelError(
            f"{cls.__name__} has no method step; write step(self), which assigns the outputs"
        )
    vectors = (VECTORS[role] for role in (INPUT, MEMORY, PARAMETER, OUTPUT))
    form = Form((TIME, *vectors), frozenset((MEMORY, OUTPUT)), name="step")
    return lowered(cls, cls.step, form, made)
