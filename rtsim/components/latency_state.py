"""The state of latency models: each link of each run has a copy, and checkpoints contain it.

A model without state is a frozen dataclass whose values never change.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import is_dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rtsim.components.latency import LatencyModel
from rtsim.components.medium import shared
from rtsim.core.errors import ScenarioError


@runtime_checkable
class SavableLatency(Protocol):
    """A latency model that saves its state itself, as plain data."""

    def save(self) -> dict[str, Any]: ...

    def restore(self, saved: dict[str, Any]) -> None: ...


def for_one_run(model: LatencyModel, link: str) -> LatencyModel:
    """Return the model that one ``link`` of one run uses: a copy, unless ``model`` has no state.

    Raises :class:`ScenarioError` if the model cannot be copied.
    """
    if remembers_nothing(model):
        return model
    medium = getattr(shared(model), "medium", None)  # media are compared, and belong to all links
    try:
        return copy.deepcopy(model, {id(medium): medium})
    except Exception as error:
        raise ScenarioError(
            f"latency model {type(model).__name__} on {link} cannot be copied: {error}; each run "
            "uses a copy of its own, so keep only plain values in the model"
        ) from error


def remembers_nothing(model: object) -> bool:
    """Return whether the model has no state, so that its delays can be drawn ahead."""
    options: Any = getattr(type(model), "__dataclass_params__", None)
    if not is_dataclass(model) or isinstance(model, type) or not options.frozen:
        return False
    values = _attributes(model).values()
    if not _is_ours(model) and not all(_never_changes(v) for v in values if not _is_model(v)):
        return False
    return all(remembers_nothing(value) for value in values if _is_model(value))


def _is_ours(model: object) -> bool:
    return type(model).__module__.partition(".")[0] in ("rtsim", "hitl")


def _is_model(value: object) -> bool:
    return hasattr(value, "delays")


def _attributes(model: object) -> dict[str, Any]:
    """Return the attributes of ``model``, also those in ``__slots__``."""
    slots = (n for kind in type(model).__mro__ for n in getattr(kind, "__slots__", ()))
    found = {name: getattr(model, name) for name in slots if hasattr(model, name)}
    return {**found, **getattr(model, "__dict__", {})}


def _never_changes(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_never_changes, value))
    return value is None or isinstance(value, bool | int | float | str | bytes | Fraction)


def _packed(value: object) -> Any:
    """Return ``value`` as plain data; raises :class:`TypeError` if it has another type."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [_packed(one) for one in value]}
    if isinstance(value, list):
        return [_packed(one) for one in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(type(value).__name__)


def _unpacked(saved: Any) -> Any:
    if isinstance(saved, dict):
        return tuple(map(_unpacked, saved["tuple"]))
    return [_unpacked(one) for one in saved] if isinstance(saved, list) else saved


def _can_be_packed(value: object) -> bool:
    try:
        _packed(value)
    except TypeError:
        return False
    return True


def latency_state(model: LatencyModel) -> dict[str, Any]:
    """Return the state of ``model`` and of the models in it, as plain data for a checkpoint."""
    if remembers_nothing(model):
        return {}
    if isinstance(model, SavableLatency):
        return dict(model.save())
    out = {}
    for name, value in _attributes(model).items():
        if _is_model(value):
            out[name] = latency_state(value)
        elif not _is_ours(model) and _can_be_packed(value):
            out[name] = _packed(value)
    return {name: value for name, value in out.items() if value != {}}


def put_latency_back(model: LatencyModel, saved: dict[str, Any]) -> None:
    """Set the state of ``model`` to what :func:`latency_state` returned."""
    if remembers_nothing(model):
        return
    if isinstance(model, SavableLatency):
        model.restore(saved)
        return
    for name, value in _attributes(model).items():
        if _is_model(value):
            put_latency_back(value, saved.get(name, {}))
        elif not _is_ours(model) and name not in saved and _can_be_packed(value):
            object.__delattr__(model, name)  # set during the run: the class has a default
    for name, value in saved.items():
        if not _is_model(getattr(model, name, None)):
            object.__setattr__(model, name, _unpacked(value))


def not_saved(model: LatencyModel) -> Iterator[str]:
    """Yield the attributes that can hold state but are not plain data, as ``Class.name``."""
    if remembers_nothing(model) or isinstance(model, SavableLatency):
        return
    for name, value in _attributes(model).items():
        if _is_model(value):
            yield from not_saved(value)
        elif not _is_ours(model) and not _can_be_packed(value):
            yield f"{type(model).__name__}.{name}"
