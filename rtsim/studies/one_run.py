"""One run of a study in the calling process: the only place where a study runs a scenario."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.raised import Interrupted, from_outside, in_words
from rtsim.core.tag import NS_PER_S
from rtsim.record.memory_recorder import Recorder
from rtsim.record.reduced import ReducingRecorder
from rtsim.runs.pace import MAX, Pace
from rtsim.runs.request import Output, RunRequest
from rtsim.runs.simulation import run
from rtsim.scenario.loading import ScenarioMaker
from rtsim.scenario.scenario import Scenario
from rtsim.studies.plan import Job, Ordered, text_of
from rtsim.studies.rows import ERROR, NAN, OK, Row
from rtsim.studies.texts import Value

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

_KEPT = 16
"""Number of scenarios that are kept, one for each combination of the function's arguments."""


class Runner:
    """Runs a scenario again and again with other factors; use it in one thread only."""

    def __init__(self, job: Job) -> None:
        """Load the scenario and the results; raises :class:`ScenarioError`."""
        self.job = job
        self._maker = ScenarioMaker(job.scenario)
        self._made: OrderedDict[tuple[tuple[str, str], ...], Scenario] = OrderedDict()
        _ = job.reduced

    def check(self, order: Ordered) -> None:
        """Raise :class:`ScenarioError` if the scenario does not take the factors of ``order``."""
        self._scenario(order)

    def until_ns(self, order: Ordered) -> int:
        """Return the end of the run ``order`` in ns."""
        return RunRequest(self._scenario(order), until=self.job.until).until_ns

    def row(
        self, order: Ordered, *, pace: Pace | str | float = MAX, recorder: Recorder | None = None
    ) -> Row:
        """Run once and return the row; an error of the run is part of the row.

        ``pace`` as in ``simulate``.  ``recorder`` also takes the rows of the run.  Raises
        :class:`KeyboardInterrupt` if the user ended the run.
        """
        began = stopwatch()
        try:
            row = self._row(order, Pace.of(pace), recorder)
        except BaseException as error:
            if from_outside(error):
                raise
            row = Row(order, ERROR, _cause(error))
        return replace(row, wall_s=(stopwatch() - began) * 1e-9)

    def _row(self, order: Ordered, pace: Pace, into: Recorder | None) -> Row:
        measures = self.job.measures()
        reduced = ReducingRecorder(measures.take, keep=measures.needs_recording)
        request = RunRequest(
            self._scenario(order), order.seed, pace, self.job.until,
            output=Output(reduced if into is None else into),
        )  # fmt: skip
        result = run(request)
        if result.reason == "interrupted":
            raise Interrupted
        if result.lost is not None:
            raise result.lost
        recording: Callable[[], Recording] = reduced.recording
        if into is None:
            reduced.drain()
        else:
            recording = cache(result.recording)
            measures.take_recording(recording())
        row = Row(
            order, OK, reason=result.reason, ended_s=result.ended.ns / NS_PER_S,
            digest=measures.digest(),
        )  # fmt: skip
        try:
            row = replace(row, histories=measures.histories(result.ended.ns))
            if result.error is not None:
                return replace(row, state=ERROR, cause=_cause(result.error))
            values = measures.values(recording)
        except Exception as error:
            return replace(row, state=ERROR, cause=_cause(error))
        bad = [name for name, value in values.items() if math.isnan(value)]
        if bad:
            row = replace(row, state=NAN, cause=f"{', '.join(bad)} is not a number")
        return replace(row, values=values)

    def _scenario(self, order: Ordered) -> Scenario:
        """Return a scenario with the factors of ``order``."""
        factors: dict[str, Value] = {**self.job.settings, **order.factors}
        arguments = tuple((n, text_of(v)) for n, v in sorted(factors.items()) if "." not in n)
        scenario = self._made.get(arguments)
        if scenario is None:
            scenario = self._made[arguments] = self._maker.make(dict(arguments))
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        scenario = scenario.copy()
        for name, value in factors.items():
            if "." in name:
                if isinstance(value, str):
                    raise ScenarioError(f"{name} = {value!r} is not a number")
                scenario.set(name, value)
        # A replay of the recording sets the same values.
        scenario.origin["settings"] = {name: text_of(value) for name, value in factors.items()}
        return scenario


def _cause(error: BaseException) -> str:
    """Return one line that says what went wrong."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, RtsimError) else in_words(error)
    return " ".join(text.split())
