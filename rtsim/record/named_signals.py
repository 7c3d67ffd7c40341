"""Access to the signals of a run by name: ``run["cart.x"]``, ``run[cart.x]`` and ``run.cart.x``.

Results and recordings share this interface. All signals have the same times,
:attr:`SignalsByName.time` in s. No time occurs twice. If a signal changes at one of these times,
the value after the change is returned.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.signals import SignalName, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record import markup
from rtsim.record.component_values import names_of
from rtsim.record.table import (
    Recorded,
    SignalTable,
    TableKeywords,
    common_times,
    signal_table,
    signal_values,
)


class SignalsByName(ABC):
    """A run whose signals can be read by name as arrays, tables or plots."""

    @abstractmethod
    def _signals_from(self) -> Recorded:
        pass

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """Return facts that identify the run."""

    @cached_property
    def time_ns(self) -> NDArray[np.int64]:
        """The times :attr:`time` in ns, shape (n,)."""
        return common_times(self._signals_from())

    @property
    def time(self) -> Vector:
        """Times of the rows of all plants [s], shape (n,), each time once.

        In a run without plants, the times are all instants at which a value changes, and both ends
        of the recording.
        """
        return self.time_ns / NS_PER_S

    def __getitem__(self, name: SignalName) -> Vector:
        """Return a signal at the times ``time``, shape (n,), or (n, size) for an array.

        ``name`` is ``"cart.x"``, or ``cart.x`` of a handle. Signals belong to plants, sources,
        sensors, processes, external inputs and controllers; parameters count as signals. An output
        of a controller changes when its message arrives.

        At a time with two values, the result contains the value after the changes. Between two
        rows, a signal is constant. Before the first row, messages and external inputs have their
        declared initial values, and other signals are NaN. Use ``Recording.track`` for all rows.

        Raises :class:`UnknownName` for an unknown signal or the memory of a controller, and
        :class:`RecordingError` if the run was not recorded.
        """
        return signal_values(self._signals_from(), name, self.time_ns)

    def __contains__(self, name: object) -> bool:
        """Return whether ``run[name]`` is a signal."""
        owner, _, signal = str(name).rpartition(".")
        return signal in self._names().get(owner, ())

    def _names(self) -> dict[str, list[str]]:
        return names_of(self._signals_from().component_values)

    def __getattr__(self, name: str) -> ComponentSignals:
        """Return the signals of the component ``name``: ``run.cart.x`` is ``run["cart.x"]``.

        If the component has the name of an attribute, such as ``table``, write ``run["table.x"]``.
        """
        if name.startswith("_") or name in _declared(type(self)):
            return object.__getattribute__(self, name)  # type: ignore[no-any-return]
        try:
            known = self._names()
        except RecordingError as error:
            raise AttributeError(f"{name!r}: {error}") from error
        if name not in known:
            public = [one for one in dir(type(self)) if not one.startswith("_")]
            near = difflib.get_close_matches(name, known, cutoff=0.5)
            raise AttributeError(
                str(UnknownName("component", name, near or [*known, *public], "this run"))
            )
        return ComponentSignals(self, name, known[name])

    def __dir__(self) -> list[str]:
        try:
            components = list(self._names())
        except RecordingError:
            components = []
        return sorted({*super().__dir__(), *components})

    def table(self, *names: object, **how: Unpack[TableKeywords]) -> SignalTable:
        """Return signals at common times, as a table.

        Without names, the table contains all signals of the run. Arguments and rules are those of
        :func:`~rtsim.record.table.signal_table`.

            run.table("f16.altitude", "autopilot", rate=100.0).to_pandas().plot()
        """
        return signal_table(self._signals_from(), names, **how)

    def plot(self, *names: object, **how: Unpack[TableKeywords]) -> Any:
        """Return a plotly figure with one plot for each unit.

        ``names`` selects signals as in :meth:`table`, such as ``"cart"``, ``"*.x"`` or ``cart.x``.
        """
        from rtsim.record.plotly_html import plotted

        table = self.table(*names, **how)
        return plotted(table.time, table.columns, table.units, table.held)

    def export(self, path: str | Path, *names: object, **how: Unpack[TableKeywords]) -> None:
        """Write a table of signals to the file ``path``, whose suffix selects the format.

        An existing file is replaced.  Raises :class:`UnknownName` for a suffix that is not in
        :data:`rtsim.extend.EXPORTS`, :class:`ScenarioError` if a package is missing, and
        :class:`RecordingError` if the file cannot be written.

            run.export("flight.parquet", "f16", rate=10.0)
        """
        from rtsim.record.export import export

        export(self.table(*names, **how), Path(path))

    def __repr__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in self.facts().items())
        return f"<{type(self).__name__}: {said}>"

    def _repr_html_(self) -> str:
        return markup.shown(type(self).__name__, self.facts())

    def to_arrow(self, *names: object, **how: Unpack[TableKeywords]) -> Any:
        """Return a table of signals as a ``pyarrow.Table`` with the time in ns."""
        return self.table(*names, **how).to_arrow()

    def to_pandas(self, *names: object, **how: Unpack[TableKeywords]) -> Any:
        """Return a table of signals as a ``pandas.DataFrame`` over the time in s."""
        return self.table(*names, **how).to_pandas()

    def to_polars(self, *names: object, **how: Unpack[TableKeywords]) -> Any:
        """Return a table of signals as a ``polars.DataFrame`` with the time in s and in ns."""
        return self.table(*names, **how).to_polars()

    def to_xarray(self, *names: object, **how: Unpack[TableKeywords]) -> Any:
        """Return a table of signals as an ``xarray.Dataset`` over the time in s."""
        return self.table(*names, **how).to_xarray()


def _declared(kind: type) -> set[str]:
    return {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}


class ComponentSignals:
    """The signals of one component of a run: ``run.cart.x``."""

    __slots__ = ("_name", "_names", "_run")

    def __init__(self, run: SignalsByName, name: str, names: list[str]) -> None:
        self._run, self._name, self._names = run, name, names

    def __getattr__(self, name: str) -> Vector:
        """Return the signal ``name`` at the times ``run.time``, like ``run["component.name"]``."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._run[f"{self._name}.{name}"]
        except UnknownName as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name: str) -> Vector:
        """Return a signal by name; raise ``UnknownName`` for an unknown name."""
        return self._run[f"{self._name}.{name}"]

    def __dir__(self) -> list[str]:
        return sorted(self._names)

    @property
    def __name__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<signals of {self._name}: {', '.join(self._names)}>"
