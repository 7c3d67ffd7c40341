"""A run of a scenario as a federate of a HELICS co-simulation.

HELICS grants simulated time to the federates of a federation, and carries their values. The run
advances only to a time that HELICS has granted. At each granted time ``t``, the federate publishes
the values of its signals just before ``t``, then assigns the values that others published before
``t``. A published value therefore takes effect at the reader's next granted time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.extras import extra
from rtsim.core.signals import Signal
from rtsim.core.tag import NS_PER_S, Duration
from rtsim.equations.compiling import Compilation
from rtsim.record.recorders import Recorder
from rtsim.runs.result import RunResult
from rtsim.runs.stepping import Simulation
from rtsim.scenario.scenario import Scenario

Config = str | Path | Mapping[str, Any]
"""HELICS configuration of a federate: a JSON file, or its contents."""
PUBLISHED = "publications"
READ = ("subscriptions", "inputs")
MOST_NS = 2_000_000 * NS_PER_S
"""Longest run, ns.  HELICS' Python interface has times of type ``double``, which are exact so far.
"""
_UNIT = ("unit", "units")
_FAILURE = 1
_SHORTEST_S, _LONGEST_S = 1e-5, 1e-3
"""Pauses between two questions whether HELICS has answered, wall-clock s."""
NOTICE_NS = 3 * NS_PER_S
"""Wall-clock time after which a federate that waits for the federation says so, ns."""
_PARTING_NS = NS_PER_S // 2
"""Longest wait for HELICS after a failure, wall-clock ns."""


class FederationError(RtsimError):
    """The federation cannot be joined, or has failed."""


@dataclass(frozen=True)
class FederateResult:
    """Result of a run as a federate."""

    run: RunResult
    name: str
    exchanges: int
    """Number of granted times."""
    waited_ns: int
    """Wall-clock time for which the run waited for HELICS, ns."""


def federate(
    scenario: Scenario,
    config: Config,
    *,
    seed: int = 0,
    until: Duration | None = None,
    recorder: Recorder | None = None,
    compile: Compilation = True,
) -> RunResult:
    """Run ``scenario`` as a federate of a HELICS co-simulation, and return its result.

    ``config`` is the configuration that HELICS defines for a value federate.  The entry ``info`` of
    each publication and subscription is the name of a signal of the run.  Subscriptions assign
    external inputs, sources or parameters.  The other arguments are those of ``simulate``.

    Raises :class:`ScenarioError` for a wrong configuration, and :class:`FederationError` if the
    federation or one of its federates fails.

    Example:
        loop = {"name": "motor", "period": 0.01,
                "publications": [{"key": "motor/speed", "global": True, "info": "motor.speed"}],
                "subscriptions": [{"key": "drive/voltage", "info": "supply.voltage"}]}
        result = federate(scenario, loop)
    """
    with Simulation(
        scenario, seed=seed, until=until, recorder=recorder, compile=compile
    ) as simulation:  # fmt: skip
        return federated(simulation, config).run


def federated(
    simulation: Simulation,
    config: Config,
    notice: Callable[[str], object] | None = None,
    clock: Callable[[], int] = stopwatch,
) -> FederateResult:
    """Run ``simulation`` to its end as a federate; see :func:`federate`.

    ``notice`` receives a message if the federation has not begun ``NOTICE_NS`` after the federate
    was ready, and the message names what is missing. ``clock`` returns the wall-clock time, ns.
    """
    federate = _Federate(simulation, _read(config), notice, clock)
    try:
        federate.run()
        result = simulation.result()
    except BaseException as error:
        federate.fail(error)
        raise
    federate.leave()
    return FederateResult(result, federate.name, federate.exchanges, federate.waited_ns)


def _read(config: Config) -> dict[str, Any]:
    if isinstance(config, Mapping):
        return dict(config)
    try:
        found = json.loads(Path(config).read_text("utf-8"))
    except OSError as error:
        raise ScenarioError(
            f"cannot read {config}: {error.strerror or error}; give the JSON file that configures "
            "the federate"
        ) from None
    except ValueError as error:
        raise ScenarioError(
            f"{config} is not JSON ({error}); HELICS' configurations of federates are JSON"
        ) from None
    if not isinstance(found, dict):
        raise ScenarioError(f'{config} is not a JSON object, such as {{"name": "motor"}}')
    return found


@dataclass(frozen=True)
class _Link:
    """A publication or an input of HELICS, and the signal of the run."""

    key: str
    target: str
    signal: Signal
    handle: Any = None


class _Federate:
    """The federate of one run."""

    def __init__(
        self,
        simulation: Simulation,
        config: dict[str, Any],
        notice: Callable[[str], object] | None,
        clock: Callable[[], int],
    ) -> None:
        self._notice, self._clock = notice, clock
        self._pending = False
        """True if an asynchronous call of this federate has not been completed."""
        self.waited_ns = 0
        self._helics = extra("helics", "helics", "a federate of HELICS")
        self._run = simulation
        self.name = str(config.get("name", ""))
        if not self.name:
            raise ScenarioError('the configuration names no federate; write "name": "motor"')
        if "period" not in config:
            raise ScenarioError(
                f'federate {self.name} has no period; write "period": 0.01, the time between two '
                "exchanges in s"
            )
        if isinstance(config["period"], int | float):
            self._check_period(config["period"])
        self._until_ns = round(simulation.until * NS_PER_S)
        if self._until_ns > MOST_NS:
            raise ScenarioError(
                f"the run ends at {simulation.until:g} s; times of HELICS are exact to 1 ns up to "
                f"{MOST_NS // NS_PER_S} s; give an earlier end"
            )
        out = self._completed(config, PUBLISHED)
        inp = [link for what in READ for link in self._completed(config, what)]
        self._check_read(inp)
        made = {"terminate_on_error": True, "log_level": "no_print", **config}
        self._federate = self._joined(json.dumps(made))
        h = self._helics
        self._out = [
            replace(link, handle=h.helicsFederateGetPublicationByIndex(self._federate, k))
            for k, link in enumerate(out)
        ]
        self._in = [
            replace(link, handle=h.helicsFederateGetInputByIndex(self._federate, k))
            for k, link in enumerate(inp)
        ]
        period = h.helicsFederateGetTimeProperty(self._federate, h.HELICS_PROPERTY_TIME_PERIOD)
        self._period_ns = round(period * NS_PER_S)
        self._now_ns = self.exchanges = 0
        self._owners: dict[str, str] = {}
        """Federates by the publications that this federate reads.

        A federate that reads nothing is left out: it can send all its values and leave.
        """
        self._heard = {link.target: (0, self._period_ns) for link in self._in}
        """Time of the last value of each input, and the longest time between two values, ns."""
        self._members: dict[str, list[str]] = {}
        """Federates by the number of their core."""

    # -- the configuration

    def _check_period(self, period: float) -> None:
        if not 1 <= period * NS_PER_S <= MOST_NS:
            raise ScenarioError(
                f'federate {self.name} has the period {period} s; write "period": 0.01, a time of '
                f"at least 1 ns and at most {MOST_NS // NS_PER_S} s"
            )

    def _completed(self, config: dict[str, Any], what: str) -> list[_Link]:
        """Check the entries ``what``, and add the types and units of their signals."""
        rows = config.get(what, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ScenarioError(f'"{what}" of federate {self.name} is not a list of objects')
        links, made = [], []
        for row in rows:
            key = str(row.get("key") or row.get("name") or row.get("target") or "")
            if not key:
                raise ScenarioError(f'{what} of federate {self.name}: an entry has no "key"')
            target = row.get("info")
            if not isinstance(target, str):
                raise ScenarioError(
                    f'{key} of federate {self.name} names no signal of the run; write "info": '
                    '"COMPONENT.SIGNAL"'
                )
            signal = self._run.signal(target)
            unit = next((row[name] for name in _UNIT if name in row), None)
            if unit is not None and not _agree(unit, signal.unit):
                raise self._units(key, str(unit), "its configuration", target, signal)
            kind = "vector" if signal.shape else "double"
            if row.get("type", kind) != kind:
                raise ScenarioError(
                    f'{key} has the type {row["type"]!r}, but {target} is a {kind}; write "type": '
                    f'"{kind}", or leave the type out'
                )
            made.append({"unit": signal.unit, "type": kind, **row})
            links.append(_Link(key, target, signal))
        if made:
            config[what] = made
        return links

    def _check_read(self, links: list[_Link]) -> None:
        taken: dict[str, str] = {}
        for link in links:
            other = taken.setdefault(link.target, link.key)
            if other != link.key:
                raise ScenarioError(
                    f"{other} and {link.key} both assign {link.target}; give each its own signal"
                )
            self._run[link.target] = self._run[link.target]  # an error if it cannot be assigned

    def _units(self, key: str, unit: str, whose: str, target: str, signal: Signal) -> ScenarioError:
        return ScenarioError(
            f"{key} is in {unit!r} according to {whose}, but {target} is in {signal.unit!r}; units "
            "are not converted, so use one unit on both sides"
        )

    # -- the exchange

    def run(self) -> None:
        """Join the federation, and advance the run to its end or to its last granted time."""
        self._check_period(self._period_ns / NS_PER_S)  # which HELICS read from a text
        self._enter()
        while not self._run.ended and self._now_ns + self._period_ns <= self._until_ns:
            self._publish()
            self._assign()
            self._now_ns = self._granted(self._now_ns + self._period_ns)
            self._advance(self._now_ns)
        if not self._run.ended:
            self._publish()
            self._assign()
            self._advance(self._until_ns)

    def _advance(self, ns: int) -> None:
        self._run.advance(until=f"{min(ns, self._until_ns)}/{NS_PER_S}", finish=False)

    def _enter(self) -> None:
        h = self._helics
        for link in self._in:
            # The units are compared below, where the error can name the signal.
            h.helicsInputSetOption(link.handle, h.HELICS_HANDLE_OPTION_IGNORE_UNIT_MISMATCH, 1)
        self._wait(
            "start",
            lambda: h.helicsFederateEnterExecutingModeAsync(self._federate),
            h.helicsFederateEnterExecutingModeComplete,
            self._not_joined,
        )
        self._meet_others()
        for link in self._in:
            source = h.helicsInputGetTarget(link.handle) or link.key
            unit = h.helicsInputGetInjectionUnits(link.handle)
            if not unit and source not in (known := self._published()):
                raise UnknownName("publication", source, known, "the federation")
            if not _agree(unit, link.signal.unit):
                raise self._units(source, unit, "the federation", link.target, link.signal)

    def _published(self) -> list[str]:
        """Return the publications of all federates.

        HELICS' query for all of them at once can time out if several federates ask together.
        """
        found = (self._query(name, "publications") for some in self._members.values()
                 for name in some)  # fmt: skip
        return [key for keys in found if isinstance(keys, list) for key in keys]

    def _meet_others(self) -> None:
        """Store the names of the other federates and their publications, for errors."""
        names: dict[str, str] = {}
        for core in _cores(self._query("root", "global_state")):
            for member in core.get("federates", []):
                name = names[str(member["attributes"]["id"])] = member["attributes"]["name"]
                self._members.setdefault(str(core["attributes"]["id"]), []).append(name)
        numbers = self._query(self.name, "dependencies")
        for number in numbers if isinstance(numbers, list) else ():
            source = names.get(str(number), self.name)
            reads = self._query(source, "dependencies") if source != self.name else ()
            if isinstance(reads, list) and reads:
                keys = self._query(source, "publications")
                self._owners.update((key, source) for key in keys if isinstance(keys, list))

    def _publish(self) -> None:
        h = self._helics
        for link in self._out:
            value = self._run[link.target]
            if link.signal.shape:
                h.helicsPublicationPublishVector(link.handle, np.ravel(value).tolist())
            else:
                h.helicsPublicationPublishDouble(link.handle, value)

    def _assign(self) -> None:
        h = self._helics
        for link in self._in:
            last_ns, longest_ns = self._heard[link.target]
            silence_ns = self._now_ns - last_ns
            if not h.helicsInputIsUpdated(link.handle):
                if silence_ns > 2 * longest_ns:
                    self._check_source(link, last_ns)
                    self._heard[link.target] = last_ns, silence_ns
                continue
            self._heard[link.target] = self._now_ns, max(silence_ns, longest_ns)
            if link.signal.shape:
                value = h.helicsInputGetVector(link.handle)
            else:
                value = h.helicsInputGetDouble(link.handle)
            try:
                self._run[link.target] = value
            except RtsimError as error:
                error.add_note(f"the value came from {link.key} of the federation")
                raise

    def _granted(self, ns: int) -> int:
        """Request the time ``ns``, and return the granted time, ns."""
        h = self._helics
        granted: float = self._wait(
            "get its next time",
            lambda: h.helicsFederateRequestTimeAsync(self._federate, ns / NS_PER_S),
            h.helicsFederateRequestTimeComplete,
        )
        if granted >= h.HELICS_TIME_MAXTIME:
            raise FederationError(
                f"the federation ended at {self._now_ns / NS_PER_S:g} s, before the end of the run "
                f"of federate {self.name} at {self._run.until:g} s"
            )
        self.exchanges += 1
        return round(granted * NS_PER_S)

    def _joined(self, config: str) -> Any:
        """Join the federation in a thread, because HELICS waits for the broker in C."""
        found: list[Any] = []

        def join() -> None:
            try:
                found.append(self._helics.helicsCreateValueFederateFromConfig(config))
            except self._helics.HelicsException as error:
                found.append(error)

        thread = Thread(target=join, daemon=True)
        thread.start()
        self._until(
            lambda: not thread.is_alive(),
            lambda: "the broker does not answer; start one, such as helics_broker --federates 2",
        )
        if isinstance(found[0], self._helics.HelicsException):
            raise self._failure("join the federation", str(found[0]))
        return found[0]

    def _wait(
        self,
        what: str,
        begin: Callable[[], object],
        complete: Callable[[Any], Any],
        missing: Callable[[], str] | None = None,
    ) -> Any:
        """Begin an asynchronous call of the federate and wait; Ctrl-C still works meanwhile."""
        h, self._pending = self._helics, True
        begin()
        self._until(lambda: h.helicsFederateIsAsyncOperationCompleted(self._federate), missing)
        self._pending = False
        return self._call(what, complete, self._federate)

    def _until(self, done: Callable[[], bool], missing: Callable[[], str] | None = None) -> None:
        """Wait until ``done()``; if that takes long, tell the user what is ``missing``."""
        began, pause, tell = self._clock(), _SHORTEST_S, self._notice
        while not done():
            if tell and missing and self._clock() - began >= NOTICE_NS:
                tell(f"federate {self.name} is waiting for the federation: {missing()}")
                tell = None
            sleep(pause)
            pause = min(pause * 1.1, _LONGEST_S)
        self.waited_ns += self._clock() - began

    def _not_joined(self) -> str:
        h, told = self._helics, ""
        query = h.helicsCreateQuery("root", "federates")
        with suppress(h.HelicsException):
            names = h.helicsQueryCoreExecute(query, h.helicsFederateGetCore(self._federate))
            if isinstance(names, list):
                told = f", and only {', '.join(names)} joined" if names else ""
        h.helicsQueryFree(query)
        return f"the broker expects more federates{told}; start the other federates"

    def _call(self, what: str, function: Callable[..., Any], *given: Any) -> Any:
        try:
            return function(*given)
        except self._helics.HelicsException as error:
            raise self._failure(what, str(error)) from None

    def _failure(self, what: str, said: str) -> FederationError:
        at = f" at {self._now_ns / NS_PER_S:g} s" if hasattr(self, "_now_ns") else ""
        said = re.sub(r"^\[-?\d+\] *", "", said)
        lost = re.search(r"lost comms with (\d+)", said)
        names = ", ".join(self._members.get(lost[1], [])) if lost else ""
        if names:
            said = f"{names} no longer answers ({said})"
        elif "connect" in said and not at:
            said += "; start a broker first, such as helics_broker --federates 2"
        return FederationError(f"federate {self.name} could not {what}{at}: {said}")

    def _query(self, target: str, what: str) -> Any:
        h = self._helics
        query = h.helicsCreateQuery(target, what)
        asked = f"ask for {what} of {target}"
        try:
            self._call(asked, h.helicsQueryExecuteAsync, query, self._federate)
            self._until(lambda: h.helicsQueryIsCompleted(query))
            return self._call(asked, h.helicsQueryExecuteComplete, query)
        finally:
            h.helicsQueryFree(query)

    def _check_source(self, link: _Link, last_ns: int) -> None:
        """Raise :class:`FederationError` if the source of ``link`` has left the federation."""
        source = self._owners.get(self._helics.helicsInputGetTarget(link.handle) or link.key)
        if source and self._query(source, "state") in ("disconnected", "error"):
            raise FederationError(
                f"federate {source} has left the federation: {link.key} has kept its value since "
                f"{last_ns / NS_PER_S:g} s, and federate {self.name} is at "
                f"{self._now_ns / NS_PER_S:g} s; give all federates the same end"
            )

    # -- the end

    def fail(self, error: BaseException) -> None:
        h, text = self._helics, str(error) or type(error).__name__
        if not isinstance(error, FederationError):
            text = f"federate {self.name} failed: {text}"
        with suppress(h.HelicsException):  # the federation has ended
            if self._pending:  # an error of the federate alone would wait for the pending call
                core, since = h.helicsFederateGetCore(self._federate), self._clock()
                h.helicsCoreGlobalError(core, _FAILURE, text.encode())
                while not h.helicsFederateIsAsyncOperationCompleted(self._federate):
                    if self._clock() - since > _PARTING_NS:
                        return
                    sleep(_LONGEST_S)
            else:
                h.helicsFederateLocalError(self._federate, _FAILURE, text)
            h.helicsFederateFree(self._federate)

    def leave(self) -> None:
        h = self._helics
        try:
            h.helicsFederateDisconnect(self._federate)
            h.helicsFederateFree(self._federate)
        except h.HelicsException as error:
            raise self._failure("leave the federation", str(error)) from None


def _agree(unit: object, ours: str) -> bool:
    """Return True if the units are equal; a publication of another program may declare none."""
    return unit == ours or unit == "" or {unit, ours} <= {"", "1"}


def _cores(graph: Any) -> list[Any]:
    """Return all cores in the answer to the query ``global_state``; none if it has failed."""
    if not isinstance(graph, dict):
        return []
    found = list(graph.get("cores", []))
    for broker in graph.get("brokers", []):
        found += _cores(broker)
    return found
