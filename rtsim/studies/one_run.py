"""Execute runs of a study in this process.

Worker processes call :func:`run_batch`.
"""

from __future__ import annotations

import faulthandler
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import IO, TYPE_CHECKING

from rtsim.core.clock import processor_time, stopwatch
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.raised import Interrupted, from_outside, in_words
from rtsim.core.tag import NS_PER_S
from rtsim.core.version import __version__
from rtsim.engine.compiled.engine import engine_kept
from rtsim.record.events import TO_THE_END
from rtsim.record.recorders import Recorder, ReducingRecorder, TrackPool
from rtsim.runs.prepared import Prepared, prepare
from rtsim.runs.request import MAX, Connections, Output, Pace, RunRequest
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import run
from rtsim.scenario.loading import ScenarioMaker
from rtsim.scenario.scenario import Scenario
from rtsim.studies.input_signals import Changes
from rtsim.studies.measures import ERROR, FAILED, NAN, OK, Measures, Row
from rtsim.studies.plan import Job, Ordered, text_of
from rtsim.studies.sources import Sources, SourcesChanged, check_versions, text_of_files
from rtsim.studies.texts import Value

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


Live = Callable[[Scenario], AbstractContextManager[Connections]]
"""Function that opens displays of a run in progress, such as a window."""
_KEPT = 16
_FASTEST, _UNSEEN = Pace(), Connections()


class _Made:
    def __init__(
        self, make: Callable[[], Scenario], sources: Sources, files: dict[str, str]
    ) -> None:
        self._sources = sources
        self.files = files
        with sources.watched(self.files):
            self.scenario = make()
        self.runs = 0

    @cached_property
    def prepared(self) -> Prepared | None:
        try:
            with self._sources.watched(self.files):
                prepared = prepare(self.scenario)
        except SourcesChanged:
            raise
        except Exception:
            return None
        return None if prepared.rebuilt else prepared


_ENGINE_NS = 10 * NS_PER_S


class Runner:
    """Execute a scenario repeatedly with different factors."""

    def __init__(self, job: Job, *, prepared: bool = True, checked: bool = False) -> None:
        """Load the scenario and the results; raise ``ScenarioError`` on failure.

        With ``prepared``, one scenario is built for many runs if possible. With ``checked``, the
        runner raises :class:`SourcesChanged` if a source file differs from the one that the job
        describes.
        """
        self.job = job
        self._prepares = prepared
        self._sources = Sources(job.scenario, job.study, data=job.data)
        self._files: dict[str, str] = {}
        with self._sources.watched(self._files):
            self._maker = ScenarioMaker(job.scenario)
            _ = job.reduced
        # The hash in the maker was computed before the load, so a change during the load is
        # detected.
        if checked:
            job.check_unchanged()
            if self._maker.sha256 != job.sha256:
                raise SourcesChanged(f"{job.scenario} changed while it was loaded; try again")
        self._made: OrderedDict[tuple[tuple[str, str], ...], _Made] = OrderedDict()
        self._latest: tuple[tuple[tuple[str, str], ...] | None, dict[str, str]] = None, {}
        """Arguments of the latest created scenario, and the files read to create it. The entry is
        stored even if the creation failed.
        """
        self.ready = False
        """True if this process has built and compiled the scenario."""
        self._spent_ns = 0
        self._pays = False

    def check(self, order: Ordered) -> None:
        self._scenario(self._of(order), order)

    def make_ready(self, order: Ordered) -> None:
        """Build the scenario and compile its models, once per process."""
        self.ready = True
        with suppress(Exception):  # The run reports the error.
            made = self._of(order)
            if made.prepared is None:
                self._scenario(made, order).build().close()

    def scenario(self, order: Ordered) -> Scenario:
        return self._scenario(self._of(order), order)

    def until_ns(self, order: Ordered) -> int:
        return RunRequest(self._scenario(self._of(order), order), until=self.job.until).until_ns

    def row(
        self,
        order: Ordered,
        *,
        pace: Pace | str | float = MAX,
        recorder: Recorder | None = None,
        live: Live | None = None,
    ) -> Row:
        """Execute one run and return its row. The row also contains an error of the run.

        ``pace`` has the same meaning as in ``simulate``. ``recorder`` receives the rows of the
        recording. ``live`` shows the run in progress. With ``live``, errors are raised. Raises
        ``SourcesChanged`` if a source file has changed, and ``KeyboardInterrupt`` after an
        interruption.
        """
        pace, scenario, connections = Pace.of(pace), None, Connections()
        files: dict[str, str] = {}
        began = stopwatch()
        with ExitStack() as stack:
            if live is not None:
                scenario = self._scenario(self._of(order), order)
                connections = stack.enter_context(live(scenario))
            try:
                with self._sources.watched(files):
                    if scenario is None:
                        done = self._unseen(order, pace, recorder)
                    else:
                        done = self._plainly(order, scenario, pace, recorder, connections)
                    row = _row_of(order, done)
            except BaseException as error:
                if from_outside(error) or isinstance(error, SourcesChanged):
                    raise
                row = Row(order, ERROR, _cause(error))
        sources = text_of_files(self._all_files(order, files))
        return row._replace(
            wall_s=(stopwatch() - began) * 1e-9, sources=sources,
            sources_sha256=self.job.sources_sha256(sources),
        )  # fmt: skip

    def _all_files(self, order: Ordered, files: Mapping[str, str]) -> dict[str, str]:
        out = dict(self._files)
        arguments = self._arguments(order)
        made, (latest, read) = self._made.get(arguments), self._latest
        for_it = made.files if made else read if latest == arguments else {}
        for name, digest in (*for_it.items(), *files.items()):
            if out.setdefault(name, digest) != digest:
                raise SourcesChanged(f"{name} changed while the study ran; start a new study")
        return out

    def _unseen(self, order: Ordered, pace: Pace, into: Recorder | None) -> _Done:
        made = self._of(order)
        if into is None and pace.rate is None and self._worth_preparing(made, order):
            return self._prepared(made, order)
        began = processor_time()
        done = self._plainly(order, self._scenario(made, order), pace, into)
        self._spent_ns += processor_time() - began
        return done

    def _worth_preparing(self, made: _Made, order: Ordered) -> bool:
        made.runs += 1
        repeats = made.runs > 1 or all("." in name for name in self._values(order))
        return self._prepares and repeats and self._engine_pays and made.prepared is not None

    @property
    def _engine_pays(self) -> bool:
        if not self._pays:  # the check of the cache takes as long as several short runs
            self._pays = self.ready or self._spent_ns >= _ENGINE_NS or engine_kept()
        return self._pays

    def _prepared(self, made: _Made, order: Ordered) -> _Done:
        assert made.prepared is not None
        measures: list[Measures] = []

        def begin(pool: TrackPool) -> ReducingRecorder:
            measures.append(self.job.measures())
            return ReducingRecorder(measures[-1].take, measures[-1].needs_recording, pool)

        try:
            result = made.prepared.run_into(
                begin, seed=order.seed, set=self._set(order), until=self.job.until,
                changes=self._changes(made, order),
            )  # fmt: skip
            recorder = result.recorder
            assert isinstance(recorder, ReducingRecorder)
            recorder.drain()
        except Exception:
            return self._plainly(order, self._scenario(made, order))
        if result.error is not None:
            return self._plainly(order, self._scenario(made, order))

        def recording() -> Recording:
            found = recorder.recording()
            found.header["scenario"]["origin"]["settings"] = self._settings(order)
            return found

        return _Done(result, measures[-1], recording)

    def _plainly(
        self, order: Ordered, scenario: Scenario, pace: Pace = _FASTEST,
        into: Recorder | None = None, live: Connections = _UNSEEN,
    ) -> _Done:  # fmt: skip
        measures = self.job.measures()
        reduced = ReducingRecorder(measures.take, keep=measures.needs_recording)
        request = RunRequest(
            scenario, order.seed, pace, self.job.until,
            output=Output(reduced if into is None else into), live=live,
        )  # fmt: skip
        result = run(request)
        if into is None:
            reduced.drain()
            return _Done(result, measures, reduced.recording)
        recording = cache(result.recording)
        if result.reason != "interrupted" and result.lost is None:
            measures.take_recording(recording())
        return _Done(result, measures, recording)

    def _values(self, order: Ordered) -> dict[str, Value]:
        inputs = self.job.input_factors
        factors = {name: one for name, one in order.factors.items() if name not in inputs}
        return {**self.job.settings, **factors}

    def _changes(self, made: _Made, order: Ordered) -> dict[str, Changes]:
        if not self.job.signals:
            return {}
        until_ns = RunRequest(made.scenario, until=self.job.until).until_ns
        return {one.target: one.changes(order.factors, until_ns) for one in self.job.signals}

    def _set(self, order: Ordered) -> dict[str, Value]:
        values = {name: value for name, value in self._values(order).items() if "." in name}
        for name, value in values.items():
            if isinstance(value, str):
                raise ScenarioError(f"{name} = {value!r} is not a number")
        return values

    def _settings(self, order: Ordered) -> dict[str, str]:
        return {name: text_of(value) for name, value in self._values(order).items()}

    def _of(self, order: Ordered) -> _Made:
        arguments = self._arguments(order)
        made = self._made.get(arguments)
        if made is None:
            make = partial(self._make, arguments)
            files: dict[str, str] = {}
            self._latest = arguments, files
            made = self._made[arguments] = _Made(make, self._sources, files)
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(arguments)
        return made

    def _make(self, arguments: tuple[tuple[str, str], ...]) -> Scenario:
        scenario = self._maker.make(dict(arguments), lambda made: made.faults(*self.job.injected))
        for one in self.job.signals:
            scenario.drive(one.target, ())
        own = {one.name: one for one in self.job.formula_requirements}
        for declared in scenario.requirements:
            name, formula = declared.name, declared.formula
            if name in own and formula != own[name].formula:
                raise ScenarioError(
                    f"the scenario declares {name} as {formula!r}, but the runs are judged by "
                    f"{own[name].formula!r}; give one of the two requirements another name, "
                    "or declare a formula that is the same in all runs"
                )
        kept = [one for one in scenario.requirements if one.name not in own]
        scenario.requirements = (*kept, *own.values())
        return scenario

    def _arguments(self, order: Ordered) -> tuple[tuple[str, str], ...]:
        values = sorted(self._values(order).items())
        return tuple((name, text_of(value)) for name, value in values if "." not in name)

    def _scenario(self, made: _Made, order: Ordered) -> Scenario:
        scenario = made.scenario.copy()
        for name, value in self._set(order).items():
            scenario.set(name, value)
        for target, changes in self._changes(made, order).items():
            scenario.drive(target, changes)
        scenario.origin["settings"] = self._settings(order)
        return scenario


@dataclass(frozen=True)
class _Done:
    result: RunResult
    measures: Measures
    recording: Callable[[], Recording]


def _row_of(order: Ordered, done: _Done) -> Row:
    result, measures = done.result, done.measures
    if result.reason == "interrupted":
        raise Interrupted
    if result.lost is not None:
        raise result.lost
    row = partial(
        Row, order, reason=result.reason, ended_s=result.ended.ns / NS_PER_S,
        digest=measures.digest(),
    )  # fmt: skip
    try:
        row = partial(row, histories=measures.histories(result.ended.ns))
    except UnknownName as error:
        return row(ERROR, _cause(result.error or error))
    if result.error is not None:
        return row(ERROR, _cause(result.error))
    if result.reason not in TO_THE_END:
        ended_s = result.ended.ns / NS_PER_S
        return row(ERROR, f"the run was ended by the command quit at {ended_s:g} s")
    try:
        margins, why_open = measures.robustness(done.recording)
        if result.ending.failed:  # The results would describe only a part of the run.
            return row(FAILED, result.ending.error, values=margins)
        values = measures.values(result.ended.ns, done.recording)
    except Exception as error:
        return row(ERROR, _cause(error))
    bad = [name for name, value in values.items() if math.isnan(value)]
    if bad:
        why = [f"{', '.join(bad)} is not a number", *measures.uncovered(result.ended.ns)]
        return row(NAN, "; ".join(why), values={**values, **margins})
    return row(OK, why_open, values={**values, **margins})


def _cause(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if isinstance(error, RtsimError) else in_words(error)
    return " ".join(text.split())


_RUNNERS: dict[str, Runner] = {}
_ONE_AT_A_TIME = threading.Lock()
"""Lock with which a worker that has several threads executes only one batch at a time."""
_NOWHERE: list[IO[str]] = []
_GRACE_S = 1.0
"""Time after the limit at which the worker ends a run, s. The study measures the run later than the
worker. The extra time ensures that the study also measures more than the limit.
"""
_READY_S = 60.0


def _runner_of(job_text: str) -> Runner:
    if job_text not in _RUNNERS:
        job = Job.of_text(job_text)
        if job.rtsim != __version__:
            raise ScenarioError(
                f"the study was made with rtsim {job.rtsim}, but this process has {__version__}; "
                "install the same version"
            )
        check_versions(job.versions)
        runner = Runner(job, checked=True)
        _RUNNERS.clear()
        _RUNNERS[job_text] = runner
    return _RUNNERS[job_text]


def run_batch(
    job_text: str,
    orders: Sequence[Ordered],
    began: Callable[[], object] = lambda: None,
    limited: bool = True,
) -> list[Row]:
    """Execute the runs in ``orders``, and return their rows.

    ``began`` is called before the first run. With ``limited``, this process ends if a run exceeds
    the time limit. The time limit does not include loading, building and compiling the scenario.
    After compilation, the function calls ``began`` again.
    """
    with _ONE_AT_A_TIME:
        runner = _runner_of(job_text)
        limit = runner.job.limit if limited else None
        began()
        if limit is not None and not runner.ready:
            with _Limit(max(limit, _READY_S)):
                runner.make_ready(orders[0])
            began()
        rows = []
        for order in orders:
            with _Limit(None if limit is None else limit + _GRACE_S):
                rows.append(runner.row(order))
        return rows


def check_worker(job_text: str, order: Ordered) -> str:
    """Return why this process cannot execute the run ``order``, or "".

    The scenario is loaded again, because its files may have changed.
    """
    try:
        with _ONE_AT_A_TIME:
            _RUNNERS.clear()
            _runner_of(job_text).check(order)
    except RtsimError as error:
        return str(error)
    return ""


class _Limit:
    """Context manager that ends the process after ``seconds``, even during compiled code."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if self._seconds is None:
            return
        if not _NOWHERE:
            _NOWHERE.append(open(os.devnull, "w"))
        faulthandler.dump_traceback_later(self._seconds, file=_NOWHERE[0], exit=True)

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            faulthandler.cancel_dump_traceback_later()
