"""The declarations of discrete-event components: processes, and populations of agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model, Update
from rtsim.equations.named_arguments import Arguments, NamedVector, named

if TYPE_CHECKING:
    from rtsim.discrete.agenda import Agenda


Setup = Callable[["Agenda"], None]
"""A function that creates resources and starts processes (generators) on a new agenda."""


@dataclass(frozen=True)
class Processes:
    """Processes on a SimPy environment, as one component of a run.

    rtsim calls ``setup(agenda)`` at the start of each run, and after each return to a checkpoint.
    All objects that the processes share must be created in ``setup``.

    Whenever an output changes, rtsim sends a message with all ``outputs``. ``messages`` are further
    topics by name; each call of :meth:`~rtsim.discrete.agenda.Agenda.send` sends one message.
    """

    setup: Setup
    inputs: Signals = Signals()
    outputs: Signals = Signals()
    parameters: Signals = Signals()
    messages: Mapping[str, Signals] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.setup):
            raise ScenarioError(
                f"the set-up of processes is of type {type(self.setup).__name__}; "
                "give a function of the agenda: def setup(agenda): agenda.process(...)"
            )
        both = [n for n in self.inputs.names if n in self.parameters]
        if both:
            raise ScenarioError(f"{both[0]} is both an input and a parameter; rename one of them")

    def default_name(self) -> str:
        """Return the name of the set-up function, which is the default name of the component."""
        name = str(getattr(self.setup, "__name__", ""))
        if not name.isidentifier():
            raise ScenarioError(
                "these processes have no name; give it first: processes('name', ...)"
            )
        return name


_NONE = Signals()


def processes(
    *,
    inputs: Signals = _NONE,
    outputs: Signals = _NONE,
    parameters: Signals = _NONE,
    messages: Mapping[str, Signals] | None = None,
    assumptions: tuple[str, ...] = (),
    limits: tuple[str, ...] = (),
) -> Callable[[Setup], Processes]:
    """Decorator that turns a function, which creates and starts processes, into a component.

    :class:`Processes` explains the arguments.

    Example:
        @processes(outputs=Signals("done"))
        def machine(agenda):
            def work():
                yield agenda.timeout(5)
                agenda.write(done=1)

            agenda.process(work())
    """
    return lambda setup: Processes(
        setup, inputs, outputs, parameters, messages or {}, assumptions, limits
    )


_RULE = Arguments("i, t, before, u, p, after", "after")
# A model of many agents of one kind. Each agent reads the states before the update.

Rule = Callable[..., None]
"""``(i, t, before, u, p, after)``: agent ``i`` reads ``before`` and writes ``after[signal, i]``."""


def population(
    name: str,
    count: int,
    each: Signals,
    rule: Rule,
    *,
    inputs: Signals | None = None,
    parameters: Signals | None = None,
    in_turn: bool = False,
    assumptions: tuple[str, ...] = (),
) -> Model:
    """Return a model of ``count`` agents that are updated simultaneously.

    Each agent has the scalar signals ``each``. ``rule`` receives two arrays, with one row for each
    signal and one column for each agent: ``before`` and ``after`` the update. Give the plant an
    ``update_period``, because the model has no continuous states.

    With ``in_turn=True``, agents are updated one after another, and each agent reads the new values
    of earlier agents. Updates in turn are a known modelling error, and ``in_turn=True`` serves for
    comparison only.

    Raises :class:`ScenarioError` if there is no agent or no scalar signal, or if ``rule`` is
    invalid.
    """
    if count < 1:
        raise ScenarioError(f"{name} has {count} agents; give at least 1")
    shaped = [s.name for s in each if s.shape]
    if shaped or not len(each):
        raise ScenarioError(
            f"{name}: an agent needs one or more scalar signals, but got {shaped or 'no signal'}"
        )
    vectors = {
        "u": NamedVector(inputs or Signals(), "input"),
        "p": NamedVector(parameters or Signals(), "parameter"),
    }
    rule = named(rule, _RULE, f"rule of {name}", vectors)
    return Model(
        name=name,
        states=Signals(),
        derivative=_none,
        discrete=Signals(*(replace(s, shape=(count,)) for s in each)),
        inputs=inputs or Signals(),
        parameters=parameters or Signals(),
        update=_update_function(rule, len(each), in_turn),
        assumptions=assumptions,
    )


@lru_cache
def _update_function(rule: Rule, kinds: int, in_turn: bool) -> Update:
    act = compiled(getattr(rule, "py_func", rule))

    def together(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        count = z.size // kinds
        after = z.reshape((kinds, count))
        before = after.copy()
        for i in range(count):
            act(i, t, before, u, p, after)

    def one_by_one(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        count = z.size // kinds
        after = z.reshape((kinds, count))
        for i in range(count):
            act(i, t, after, u, p, after)

    return one_by_one if in_turn else together


def _none(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None: ...
