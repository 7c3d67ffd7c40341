"""FMUs as plants: ``scenario.plant("tank", Fmu("tank.fmu"), step=0.01)``."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.fmi.plant import ForeignModel
from rtsim.fmi.process import checked_patience
from rtsim.fmi.program import Interface, identifier
from rtsim.fmi.reading import CO_SIMULATION, MODEL_EXCHANGE, Description, Variable


class Fmu(ForeignModel):
    """An FMU of FMI 2.0 or 3.0 as a plant; docs/fmi.md has examples.

    Variables with causality input and output are inputs and outputs of the plant.  Parameters and
    other variables with a settable start value are parameters.  A name that is not an identifier is
    changed: ``body.v[1]`` becomes ``body_v_1``; ``rtsim fmu info`` lists the names.

    Args:
        path: The file.
        kind: ``"co-simulation"`` (the FMU contains the solver) or ``"model-exchange"`` (rtsim's
            solver integrates the states).  The default is co-simulation, if the FMU supports it.
        parameters: Start values by name: numbers, texts for variables of type String, and names of
            items for enumerations.
        observe: Further variables of the FMU that are recorded as outputs, by name. Inputs and
            outputs are always recorded.
        in_process: True runs the FMU in the process of the simulation, which is faster.  A crash of
            the FMU then ends the simulation.
        patience: Timeout of one operation of the FMU, s of the wall clock. The default is 10 s.

    Raises:
        ScenarioError: The file is not an FMU, has no binary for this computer, or lacks the
            requested kind.
        UnknownName: The FMU has no variable with this name.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        kind: str | None = None,
        parameters: Mapping[str, object] | None = None,
        observe: Sequence[str] = (),
        in_process: bool = False,
        patience: float | None = None,
    ) -> None:
        self.in_process, self.patience = in_process, checked_patience(patience, in_process)
        self.description = Description(path)
        self.interface = _interface(self.description, kind, parameters or {}, observe)

    def _why_unused(self, option: str) -> str:
        why = super()._why_unused(option)
        if option == "solver" and MODEL_EXCHANGE in self.description.kinds:
            return (
                f'{why}, or choose kind="{MODEL_EXCHANGE}", for which rtsim integrates the states'
            )
        return why

    def number(self, name: str, text: str) -> object:
        found = self.description.variables.get(name.removeprefix("start_"))
        return text if found is None or not found.items else found.value(text)

    def not_settable(self, name: str) -> str:
        known = self.description
        found = known.variables.get(name) or known.by_name.get(name)
        if found is None:
            return ""
        if found.type == "String":
            return (
                f"it is a text; give Fmu(..., parameters={{{found.name!r}: ...}}), or on the "
                f"command line --set parameters={found.name}=TEXT"
            )
        if found.signal.name != name:
            return f"the variable {name} is called {found.signal.name} here"
        return f"the FMU gives it no start value that can be set ({found.causality})"


def _interface(
    description: Description, kind: str | None, given: Mapping[str, object], observe: Sequence[str]
) -> Interface:
    found, part = description.part(kind)
    exchange = found != CO_SIMULATION
    if part.needsExecutionTool:
        raise ScenarioError(
            f"{description.path} needs the tool that exported it ("
            f"{description.xml.generationTool or 'unknown'}); export the FMU with its own code"
        )
    library = description.check_platform(part.modelIdentifier)
    states = description.states if exchange else []
    named = {v.signal.name for v in states}
    numbers = [v for v in description.variables.values() if v.type != "String"]
    inputs = [v for v in numbers if v.causality == "input"]
    outputs = [v for v in numbers if v.causality == "output" and v.signal.name not in named]
    recorded = {v.name for v in (*inputs, *outputs, *states)}
    outputs += [v for v in _observed(description, observe) if v.name not in recorded]
    starts = [
        v
        for v in numbers
        if v.settable and v.causality != "input" and v.start is not None
        and v.signal.name not in named
    ]  # fmt: skip
    texts, values = _given(description, given, starts, named)
    outs = {v.signal.name for v in outputs}
    parameters = [_start_signal(v, values, outs) for v in starts]
    keeps = bool(part.canGetAndSetFMUstate)
    saves = keeps and bool(part.canSerializeFMUstate)
    fixed = not exchange and not part.canHandleVariableCommunicationStepSize
    completes = exchange and part.needsCompletedIntegratorStep
    indicators = _indicator_names(description) if exchange else ()
    xml = description.xml
    name = identifier(xml.modelName or description.path.stem, {})
    spec = {
        "version": description.version, "exchange": exchange, "name": name,
        "identifier": part.modelIdentifier, "token": xml.guid, "folder": str(description.folder),
        "library": str(library),
        "inputs": [[*v.row, _event(v, exchange)] for v in inputs],
        "outputs": [list(v.row) for v in outputs],
        "parameters": [[*v.row, v.variability == "tunable"] for v in starts],
        "starts": [x for v in starts for x in v.start or ()],
        "states": [list(v.row) for v in states],
        "state_starts": [float(x) for v in states for x in _first(v)],
        "indicators": len(indicators), "texts": texts, "keeps": keeps,
    }  # fmt: skip
    return Interface(
        name=name,
        program="fmu",
        spec=spec,
        inputs=Signals(*(replace(v.signal, optional=v.start is not None) for v in inputs)),
        outputs=Signals(*(v.signal for v in outputs)),
        parameters=Signals(*parameters),
        tunable=frozenset(
            s.name for s, v in zip(parameters, starts, strict=True) if v.variability == "tunable"
        ),
        states=Signals(*(v.signal for v in states)),
        indicators=indicators,
        discrete_inputs=frozenset(v.signal.name for v in inputs if _event(v, exchange)),
        exchange=exchange,
        completes=bool(completes),
        keeps=keeps,
        saves=saves,
        fixed_step=fixed,
        nominal={v.signal.name: v.nominal for v in states},
        description={
            "fmu": description.path.name,
            "sha256": description.digest,
            "fmi": xml.fmiVersion,
            "kind": found,
            "tool": xml.generationTool or "",
            "texts": texts,
        },
        limits=tuple(_limits(description, keeps, saves, fixed)),
    )


def _event(variable: Variable, exchange: bool) -> bool:
    """Return whether a change of an input is an event."""
    return exchange and variable.variability != "continuous"


def _first(variable: Variable) -> Sequence[float]:
    start = variable.start
    return start if isinstance(start, tuple) else (0.0,) * variable.signal.size


def _observed(description: Description, names: Sequence[str]) -> list[Variable]:
    """Return the variables with these names that a recording does not contain anyway."""
    if isinstance(names, str):
        raise ScenarioError(f"observe is the text {names!r}; give a list of names: [{names!r}]")
    out: dict[str, Variable] = {}
    for name in names:
        found = description.by_name.get(name) or description.variables.get(name)
        if found is None:
            raise UnknownName("variable", name, description.by_name, str(description.path))
        if found.type == "String":
            raise ScenarioError(f"{name} is a text, and only numbers can be observed")
        if found.causality == "parameter":
            raise ScenarioError(
                f"{name} is a parameter, whose value each recording contains; omit {name} from "
                "observe="
            )
        out[found.name] = found
    return list(out.values())


def _given(
    description: Description,
    given: Mapping[str, object],
    starts: Sequence[Variable],
    states: Container[str],
) -> tuple[list[tuple[int, str]], dict[str, Any]]:
    """Return the texts, as pairs of a reference and a text, and the other values by name."""
    if not isinstance(given, Mapping):
        raise ScenarioError(f"parameters is {given!r}; give a mapping, such as {{'k': 1.0}}")
    texts: list[tuple[int, str]] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        found = description.by_name.get(name) or description.variables.get(name)
        if found is None:
            raise UnknownName("variable", name, description.by_name, str(description.path))
        if found.type == "String":
            texts.append((found.reference, str(value)))
        elif found in starts:
            values[found.signal.name] = _within(found, found.value(value))
        else:
            kind = "inputs" if found.causality == "input" else "states"
            elsewhere = kind == "inputs" or found.signal.name in states
            signal = found.signal.name
            raise ScenarioError(
                f"{name} of {description.path} is one of the {kind} of the plant; give it to the "
                f"scenario: plant(..., {kind}={{{signal!r}: ...}})"
                if elsewhere
                else f"{name} of {description.path} has no start value that can be set "
                f"({found.causality}, {found.variability})"
            )
    return texts, values


def _within(variable: Variable, value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    """Return ``value``; raise :class:`ScenarioError` outside of the bounds of the variable."""
    low, high = variable.signal.low, variable.signal.high
    for one in value if isinstance(value, tuple) else (value,):
        if not low <= one <= high:
            raise ScenarioError(
                f"{variable.name} = {one:g} is outside its range [{low:g}, {high:g}]"
            )
    return value


def _start_signal(variable: Variable, values: Mapping[str, Any], outputs: set[str]) -> Signal:
    """Return the signal of a parameter; the start value of an output is called ``start_NAME``."""
    signal = variable.signal
    name = f"start_{signal.name}" if signal.name in outputs else signal.name
    return replace(signal, name=name, initial=values.get(signal.name, signal.initial))


def _indicator_names(description: Description) -> tuple[str, ...]:
    if description.version == 2:
        return tuple(f"indicator_{i}" for i in range(description.xml.numberOfEventIndicators or 0))
    names: list[str] = []
    for unknown in description.xml.eventIndicators:
        variable = description.by_name[unknown.variable.name]
        names += (f"event_{column}" for column in variable.signal.columns)
    return tuple(names)


def _limits(description: Description, keeps: bool, saves: bool, fixed: bool) -> Sequence[str]:
    name = description.path.name
    out = []
    if not keeps:
        out.append(
            f"{name} cannot return to an earlier state (canGetAndSetFMUstate): no checkpoints and "
            "no rewind, and in real time its step is computed after the wake-up"
        )
    elif not saves:
        out.append(f"{name} cannot save its state (canSerializeFMUstate): no checkpoints")
    if fixed:
        out.append(
            f"{name} has steps of one length only (canHandleVariableCommunicationStepSize): an "
            "input that changes during a step takes effect at the next step"
        )
    if description.skipped:
        out.append(
            f"{name}: {len(description.skipped)} variables of type Binary or Clock are unused"
        )
    return out
