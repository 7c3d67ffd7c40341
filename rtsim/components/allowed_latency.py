"""The compute latency of a controller: seconds, a latency model, or measured delays.

Named models, as in ``--latency gamma:2,0.001``, are in :data:`LATENCY_MODELS`. Other packages add
latency models through the entry point ``rtsim.latency_models`` (docs/extending.md).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from rtsim.components.latency import (
    Empirical,
    Fixed,
    Gamma,
    LatencyModel,
    SerialLine,
    TruncatedNormal,
    Uniform,
)
from rtsim.core.errors import LatencyError, ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.tag import Duration

LatencyMaker = Callable[..., LatencyModel]
"""A class or function that makes a latency model from numbers."""


def _checked(name: str, made: object) -> LatencyMaker:
    if not callable(made):
        raise ScenarioError(
            f"latency model {name!r} is {made!r}; expected a class or a function that makes a "
            "model from numbers"
        )
    return made


LATENCY_MODELS: ExtensionPoint[LatencyMaker] = ExtensionPoint(
    "rtsim.latency_models",
    "latency model",
    {
        "fixed": Fixed, "uniform": Uniform, "truncated_normal": TruncatedNormal, "gamma": Gamma,
        "serial_line": SerialLine,
    },
    _checked,
)  # fmt: skip
"""The class or function that makes each latency model, by the model's name."""
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*(:|\Z)")


def names_a_model(text: str) -> bool:
    found = _NAMED.match(text)
    return found is not None and (found[2] == ":" or found[1] in LATENCY_MODELS)


def read_latency_model(text: str) -> LatencyModel:
    """Return the model for a text like ``gamma:2,0.001`` or ``gamma:shape=2,scale=0.001``.

    The numbers in ``text`` become arguments of the model's class. An invalid text raises
    :class:`ScenarioError`.
    """
    name, _, rest = (part.strip() for part in text.partition(":"))
    make = LATENCY_MODELS.get_or_raise(name)
    values: list[float] = []
    named: dict[str, float] = {}
    for given in rest.split(",") if rest else ():
        key, equals, number = given.rpartition("=")
        if equals:
            named[key.strip()] = _number(text, number)
        else:
            values.append(_number(text, number))
    try:
        inspect.signature(make).bind(*values, **named)
    except TypeError as error:
        takes = ", ".join(map(str, inspect.signature(make).parameters.values()))
        raise ScenarioError(
            f"latency {text!r}: {error}; the model {name} takes ({takes})"
        ) from None
    model = make(*values, **named)
    if not callable(getattr(model, "delays", None)) or not isinstance(model.ordered, bool):
        raise ScenarioError(f"latency model {name!r} makes {model!r}, which is not a latency model")
    return model


def _number(text: str, number: str) -> float:
    try:
        return int(number)
    except ValueError:
        pass
    try:
        return float(number)
    except ValueError:
        raise ScenarioError(
            f"latency {text!r}: {number.strip()!r} is not a number; write, say, gamma:2,0.001"
        ) from None


FROM = "from:"
"""Start of a text ``from:RUN[:CONTROLLER]``, which names times that a recorded run measured."""


def measured_in(text: str, what: str) -> tuple[Path, str]:
    """Return recording and controller of the text ``from:RUN[:CONTROLLER]``; "" for no controller.

    The name of a recording can contain colons. Without a recording, :class:`ScenarioError` is
    raised, whose message begins with ``what``.
    """
    name = text.removeprefix(FROM)
    path, colon, controller = name.rpartition(":")
    found = Path(name), ""
    if colon and path and controller.isidentifier() and not Path(name).is_file():
        found = Path(path), controller
    if not found[0].name:
        raise ScenarioError(f"{what}: the name of the recording is missing; type from:live.mcap")
    return found


Allowed = Duration | Empirical
"""An allowed latency: seconds, measured delays, or text for :func:`read_latency_model`."""


def allowing(latency: Allowed) -> LatencyModel:
    """Return the latency model for seconds, for a text ``NAME:VALUES``, or for measured delays."""
    if isinstance(latency, str) and names_a_model(latency):
        return read_latency_model(latency)
    return latency if isinstance(latency, Empirical) else Fixed(latency)


Latencies = Allowed | Mapping[str, Allowed] | None
"""One latency for all controllers, latencies by name, or ``None`` for the declared latencies."""


def latency_of(name: str, latency: Latencies) -> Allowed | None:
    return latency.get(name) if isinstance(latency, Mapping) else latency


def latency_in_words(latency: Latencies) -> str:
    """Return a latency as text, such as ``0.02 s``."""
    if latency is None or latency == {}:
        return "as declared"
    if isinstance(latency, Mapping):
        told = {name: latency_in_words(one) for name, one in latency.items()}
        same = set(told.values())
        return same.pop() if len(same) == 1 else ", ".join(f"{n}: {w}" for n, w in told.items())
    if isinstance(latency, Empirical):
        return f"measured: {latency.source or 'by hand'}"
    if isinstance(latency, str) and names_a_model(latency):
        return latency
    return f"{latency} s"


def to_plain(latency: Allowed) -> str | dict[str, object]:
    if isinstance(latency, Empirical):
        return {"source": latency.source, "samples": list(latency.samples)}
    return str(latency)


def from_plain(data: object) -> Allowed:
    """Return a latency from the data of ``to_plain``.

    Invalid data raises :class:`LatencyError`.
    """
    if isinstance(data, str):
        return data
    samples = data.get("samples") if isinstance(data, Mapping) else None
    if not isinstance(samples, list) or not all(type(s) is int for s in samples):
        raise LatencyError(
            "the latency in the header of the file is neither a text nor a list of samples in ns; "
            "record the run again"
        )
    assert isinstance(data, Mapping)
    return Empirical(tuple(samples), str(data.get("source", "")))
