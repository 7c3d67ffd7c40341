"""``back_to_back`` and ``pitl``: comparisons with the reference model, for users' tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, TypeVar

from hitl.boards.contract import BoardLink
from hitl.boards.known import DEFAULT_URL
from hitl.boards.urls import open_link, parse_url
from hitl.building.build import PLAIN
from hitl.comparison.back_to_back import back_to_back as compared
from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, ProgressWatch
from hitl.comparison.on_boards import check_faults, meet, stages
from hitl.comparison.tolerances import Tolerances
from hitl.comparison.verdict import BackToBack, ComparisonChain
from hitl.controllers.c_controller import interface_of
from hitl.controllers.sil import CASES
from hitl.firmware import firmware as firmware_of
from hitl.plants import (
    HERE,
    InPlace,
    Reference,
    faults_in,
    in_c,
    interface_in,
    made,
    reference_in,
)
from hitl.stimuli.file import stimuli_of
from rtsim.components.allowed_latency import Latencies
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Judged
from rtsim.core.tag import Duration
from rtsim.engine.faults.description import Given
from rtsim.record.reading import Recording
from rtsim.runs.request import MAX, Pace


class _WithPage(Judged):
    """A result whose text names an HTML page if the comparison did not pass."""

    page: Path | None
    no_page: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        __tracebackhide__ = True
        if kind is None:
            self.assert_ok()

    @property
    def in_words(self) -> str:
        words = super().in_words
        if self.no_page:
            return f"{words}\nno page: {self.no_page}"
        return words if self.page is None else f"{words}\npage: {self.page}"

    def __repr__(self) -> str:
        return f"<{self.in_words}>"


@dataclass(frozen=True, eq=False, repr=False)
class Reported(_WithPage, BackToBack):
    """The result of ``back_to_back``."""

    page: Path | None = None
    """Path of the HTML page; ``None`` if all signals agree or no page was requested."""
    no_page: str = ""
    """What to install, if the page could not be written without it."""


@dataclass(frozen=True, eq=False, repr=False)
class ReportedChain(_WithPage, ComparisonChain):
    """The result of ``pitl``."""

    page: Path | None = None
    """Path of the HTML page; ``None`` if all signals agree or no page was requested."""
    no_page: str = ""
    """What to install, if the page could not be written without it."""


_Kind = TypeVar("_Kind", Reported, ReportedChain)


def back_to_back(
    scenario: Reference,
    controllers: InPlace,
    /,
    *,
    pace: Pace | str | float = MAX,
    latency: Latencies = None,
    until: Duration | None = None,
    seed: int = 0,
    tolerances: Tolerances | None = None,
    recording: Recording | str | Path | None = None,
    stimuli: bool = True,
    closed: bool = True,
    build: str = PLAIN,
    page: Path | None = None,
    cases: Path = CASES,
    folder: Path = HERE,
    settings: Mapping[str, object] | None = None,
    **more_settings: object,
) -> Reported:
    """Compare C code with the reference controllers of a scenario, in open and in closed loop.

    ``controllers`` contains the interface file for each replaced component. Other keyword arguments
    are settings of the scenario; use ``settings`` for names that this function also has. ``build``
    is the kind of build. With ``stimuli=True``, stimuli files beside the interface files are also
    used. ``page`` is an HTML page to write if the comparison does not pass. Files are relative to
    ``folder``. The other arguments and the errors are those of
    :func:`hitl.comparison.back_to_back.back_to_back`::

        back_to_back("scenario.py", {"controller": "motor.toml"}).assert_ok()
    """
    translations = in_c(controllers, build, cases, folder)
    known = {name: interface_of(one) for name, one in translations.items()} if stimuli else {}
    result = compared(
        made(reference_in(folder, scenario), {**(settings or {}), **more_settings}),
        translations,
        pace=pace,
        latency=latency,
        until=until,
        seed=seed,
        tolerances=tolerances,
        recording=_recording_in(folder, recording),
        stimuli=stimuli_of(known),
        closed=closed,
    )
    return _reported(Reported, result, page)


def pitl(
    scenario: Reference,
    controllers: Mapping[str, str | Path],
    /,
    *,
    board: str = DEFAULT_URL,
    firmware: Path | None = None,
    pace: Pace | str | float = MAX,
    latency: Latencies = None,
    late: str | None = None,
    failure: str | None = None,
    until: Duration | None = None,
    seed: int = 0,
    tolerances: Tolerances | None = None,
    recording: Recording | str | Path | None = None,
    closed: bool = True,
    faults: Given | Sequence[Given] = (),
    page: Path | None = None,
    cases: Path = CASES,
    folder: Path = HERE,
    settings: Mapping[str, object] | None = None,
    **more_settings: object,
) -> ReportedChain:
    """Compare controllers on a board with their C code and their reference controllers.

    ``board`` is the board's URL. ``firmware`` is an Intel HEX file for an emulated board; by
    default, the firmware is built. ``late`` and ``failure`` are policies for late answers and
    failed controllers. ``faults`` contains fault files or faults, which apply to all runs. The
    other arguments are those of :func:`back_to_back`. Raises an error if the board cannot be
    reached, or is not the expected one::

        pitl("scenario.py", {"controller": "motor.toml:float"}, latency=0.005).assert_ok()
    """
    own = Pace.of(pace)
    both = stages(
        {name: interface_in(folder, given) for name, given in controllers.items()},
        board,
        paced=closed and own.rate is not None,
        firmware=firmware,
        cases=cases,
    )
    built = made(reference_in(folder, scenario), {**(settings or {}), **more_settings})
    built.faults(*faults_in(folder, faults))
    if closed:
        check_faults(built, both.board, board)

    request = ComparisonRequest(
        pace=own,
        latency=latency,
        late=late,
        failure=failure,
        until=until,
        seed=seed,
        tolerances=tolerances,
        recording=_recording_in(folder, recording),
        closed=closed,
        watch=ProgressWatch(checked=lambda: meet(both.board, built)),
    )
    return _reported(ReportedChain, compare_chain(built, both.stages, request), page)


def _recording_in(
    folder: Path, recording: Recording | str | Path | None
) -> Recording | str | Path | None:
    return folder / recording if isinstance(recording, str | Path) else recording


def _reported(kind: type[_Kind], result: BackToBack | ComparisonChain, page: Path | None) -> _Kind:
    values: dict[str, Any] = {f.name: getattr(result, f.name) for f in fields(result)}
    if result.ok or page is None:
        return kind(**values)
    try:
        from hitl.results.page import write_page
    except ScenarioError as error:  # the verdict counts without the page
        return kind(**values, no_page=str(error))
    write_page(result, page)
    return kind(**values, page=page)


class BoardUnderTest:
    """The board for tests; ``stack`` closes its connections."""

    def __init__(self, url: str, stack: ExitStack, folder: Path = HERE) -> None:
        self.url = url
        self._stack, self._folder = stack, folder

    def __str__(self) -> str:
        return self.url

    @property
    def emulated(self) -> bool:
        return parse_url(self.url).emulated

    def open(self, runs: str | Path) -> BoardLink:
        """Open the line to the board.

        ``runs`` is an Intel HEX file or an interface file. An emulated board runs the HEX file, or
        firmware that is built from the interface file. A real board keeps its firmware. Raises
        ``BoardError`` if the line cannot be opened.
        """
        at = parse_url(self.url)
        image = None
        if at.emulated and str(runs).endswith(".hex"):
            image = self._folder / runs
        elif at.emulated:
            source = interface_in(self._folder, runs)
            image = firmware_of(source, baud=at.baud, board=at.description).path
        link = open_link(self.url, image)
        self._stack.callback(link.close)
        return link
