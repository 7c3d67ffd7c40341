"""pytest fixtures for tests of C code, and the matrix of the requirements that tests exercise.

The fixtures are ``sil``, ``plant``, ``back_to_back``, ``counterexample``, ``faults``, ``pitl`` and
``board``. The option ``--board=URL`` sets the board of the fixtures ``pitl``, ``board`` and
``counterexample``. The option ``--in-c=[NAME=]INTERFACE`` runs counterexamples with C code. The
option ``--rtsim-matrix=PATH`` writes a traceability matrix with a column for each test.

``sil``, ``plant``, ``back_to_back`` and ``pitl`` are functions like those of :mod:`hitl`. Paths of
files are relative to the test file. Failed steps are saved below ``tmp_path``. A test fails if it
does not read the outcome of a comparison. A test also fails if it does not read the outcome of a
run of ``plant`` that did not pass. The functions of the fixtures raise an error after the end of
the test. Each run of pytest loads this module, so other modules are imported only when a fixture is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hitl.contexts import BoardUnderTest, Reported, ReportedChain
    from hitl.plants import InPlace, PlantFixture, Reference
    from hitl.stepping import Sil
    from rtsim.core.outcome import Judged
    from rtsim.engine.faults import Fault
    from rtsim.engine.faults.description import Given
    from rtsim.requirements.verdict import RequirementResult
    from rtsim.runs.result import RunResult

CASES = "cases"
_CHECKS = pytest.StashKey[list[Callable[[], "list[tuple[str, Judged]]"]]]()
"""Functions that return the results whose outcome nobody asked for, each with its fixture."""
_CHECKED = pytest.StashKey[list["RequirementResult"]]()
"""Results of requirements since the last report of a test."""
_SENT = "rtsim_requirements"
"""Attribute of a report: the results of requirements as JSON data, for other processes too."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--board=URL`` and ``--rtsim-matrix=PATH``."""
    group = parser.getgroup("rtsim")
    group.addoption(
        "--rtsim-matrix",
        action="append",
        default=[],
        metavar="PATH",
        help="Write a traceability matrix (.html or .csv) with the requirements that the tests "
        "check, and the tests as columns; repeatable.",
    )
    group.addoption(
        "--board",
        default=None,
        metavar="URL",
        help="Board that the test fixtures 'board' and 'pitl' use. board:NAME is an emulated "
        "board; serial:///dev/ttyACM0?baud=500000 and serial://COM3 are real boards. The default "
        "is an emulated board. With this option, the fixture 'counterexample' uses the board too.",
    )
    parser.getgroup("rtsim").addoption(
        "--in-c",
        action="append",
        default=[],
        metavar="[NAME=]INTERFACE",
        help="Interface file of the C code that replaces controller NAME in counterexamples; "
        "repeatable.",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a passed test that did not read the outcome of a comparison or run."""
    try:
        result = yield
    except BaseException:  # the test has not passed, so nothing needs to be refused
        item.stash[_CHECKS] = []
        raise
    _refuse_unseen(item)
    return result


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the matrix of ``--rtsim-matrix``."""
    paths = [Path(one) for one in config.getoption("rtsim_matrix")]
    if not paths or hasattr(config, "workerinput"):  # a worker of pytest-xdist only sends results
        return
    from rtsim.core.errors import RtsimError

    try:
        from rtsim.requirements.matrix_page import check_suffix

        for path in paths:
            check_suffix(path)
    except RtsimError as error:
        raise pytest.UsageError(f"--rtsim-matrix: {error}") from None
    config.pluginmanager.register(_MatrixOfTests(paths))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Collect the verdicts on requirements during a test."""
    if not item.config.getoption("rtsim_matrix"):
        return (yield)
    from rtsim.requirements.verdict import collected

    with collected() as results:
        item.stash[_CHECKED] = results
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the verdicts on requirements to the report of the test."""
    results = item.stash.get(_CHECKED, [])
    plain = [one.to_json() for one in results]
    for one in results:
        said = one.in_words.removeprefix(f"{one.name} ")
        item.user_properties.append((f"requirement {one.name}", said))
    results.clear()
    report = yield
    setattr(report, _SENT, plain)
    return report


class _MatrixOfTests:
    def __init__(self, paths: list[Path]) -> None:
        from rtsim.requirements.matrix import Matrix

        self._paths, self._matrix = paths, Matrix()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        results = getattr(report, _SENT, [])
        if results:
            self._matrix.add(report.nodeid, results)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        from rtsim.requirements.matrix_page import write_matrix

        terminalreporter.section("requirements")
        for path in self._paths:
            write_matrix(self._matrix, path, "tests")
            terminalreporter.write_line(f"matrix: {path}")
        if self._matrix.why:
            terminalreporter.write_line(self._matrix.why)


def _refuse_unseen(item: pytest.Item) -> None:
    unseen = [one for check in item.stash.get(_CHECKS, []) for one in check()]
    if unseen:
        outcomes = [(name, result.outcome.name.lower(), result) for name, result in unseen]
        lines = [f"{name} is {outcome}: {result.in_words}" for name, outcome, result in outcomes]
        text = "the test never asked for the outcome; type RESULT.assert_ok() or assert RESULT"
        pytest.fail("\n".join([text, *lines]), pytrace=False)


@pytest.fixture
def sil(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Sil]]:
    """``sil("pid.toml", gain=2.0)`` starts C code; its process ends with the test at the latest."""
    from hitl.stepping import sil as make

    folder = request.path.parent
    with ExitStack() as stack:

        def started(interface: str | Path, /, **options: Any) -> Sil:
            options.setdefault("cases", tmp_path / CASES)
            running = make(str(folder / interface), **options)
            stack.callback(running.controller.close)
            return running

        yield started


@pytest.fixture
def plant(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., PlantFixture]]:
    """``plant("scenario.py", mass=2.0)`` runs a scenario with its reference models or C code.

    The test fails if it does not read the outcome of a run that did not pass. A run that ends with
    a declared failure does not pass.
    """
    from hitl.plants import PlantFixture

    folder = request.path.parent
    made: list[PlantFixture] = []

    def doubtful() -> list[tuple[str, Judged]]:
        runs = [run for one in made for run in one.outcomes]
        return [("plant", run) for run in runs if not run.looked and not run.ok]

    test = _Test(request)

    def declared(scenario: Reference, /, **settings: object) -> PlantFixture:
        # A kept object must not fly in another test, which would not look at its outcome.
        one = PlantFixture(
            scenario, settings, cases=tmp_path / CASES, folder=folder, before=test.check
        )
        made.append(one)
        return one

    yield from _watched(test, declared, doubtful)


@pytest.fixture
def counterexample(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., RunResult]]:
    """Run a saved counterexample: ``counterexample("speed.counterexample.toml").assert_ok()``.

    The controllers are those of the scenario or, with ``--in-c``, the C code of an interface file.
    With ``--board``, the C code runs on this board. The test fails if it does not read the outcome
    of a run that did not pass.
    """
    from hitl.plants import counterexample as run

    results: list[RunResult] = []
    given = _in_c(request.config)

    def held(file: str | Path, controllers: InPlace | None = None, /, **options: Any) -> RunResult:
        own = {"cases": tmp_path / CASES, "board": request.config.getoption("--board")}
        folder = request.path.parent
        found = run(file, controllers or given, folder=folder, **{**own, **options})
        results.append(found)
        return found

    def unseen() -> list[tuple[str, Judged]]:
        return [("counterexample", one) for one in results if not one.looked and not one.ok]

    yield from _watched(_Test(request), held, unseen)


def _in_c(config: pytest.Config) -> dict[str, str]:
    parts = [given.rpartition("=") for given in config.getoption("--in-c")]
    return {name: str(config.invocation_params.dir / file) for name, _, file in parts}


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Callable[..., tuple[Fault, ...]]:
    """Read faults from files or dicts: ``plant(...).fly(faults=faults("faults.toml"))``."""
    from hitl.plants import faults_in

    folder = request.path.parent

    def described(*given: Given) -> tuple[Fault, ...]:
        return faults_in(folder, given)

    return described


@pytest.fixture
def back_to_back(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Reported]]:
    """Compare C code: ``back_to_back("scenario.py", {"controller": "pid.toml"}).assert_ok()``.

    If the comparison does not pass, a page is written into ``tmp_path``.
    """
    from hitl.contexts import back_to_back as compared

    yield from _reporting(compared, request, tmp_path, "back to back")


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Iterator[BoardUnderTest]:
    """Return the board of ``--board``; ``board.open("pid.toml:single")`` opens its line."""
    from hitl.boards.known import DEFAULT_URL
    from hitl.contexts import BoardUnderTest

    with ExitStack() as stack:
        url = str(request.config.getoption("--board") or DEFAULT_URL)
        yield BoardUnderTest(url, stack, request.path.parent)


@pytest.fixture
def pitl(
    request: pytest.FixtureRequest, tmp_path: Path, board: BoardUnderTest
) -> Iterator[Callable[..., ReportedChain]]:
    """Compare a board: ``pitl("scenario.py", {"controller": "pid.toml:single"}).assert_ok()``.

    If the comparison does not pass, a page is written into ``tmp_path``.
    """
    from hitl.contexts import pitl as compared

    yield from _reporting(compared, request, tmp_path, "pitl", board=board.url)


def _reporting(
    compare: Callable[..., Any],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    title: str,
    **defaults: object,
) -> Iterator[Callable[..., Any]]:
    stem = title.replace(" ", "-")
    results: list[tuple[str, Judged]] = []
    pages = (tmp_path / f"{stem}-{number}.html" for number in count(1))

    def held(scenario: Reference, controllers: InPlace, /, **options: Any) -> Any:
        own = {"cases": tmp_path / CASES, "page": next(pages), **defaults}
        result = compare(scenario, controllers, folder=request.path.parent, **{**own, **options})
        if result.page is not None:
            request.node.add_report_section("call", title, f"page: {result.page}")
        results.append((title, result))
        return result

    def unseen() -> list[tuple[str, Judged]]:
        return [(name, one) for name, one in results if not one.looked]

    yield from _watched(_Test(request), held, unseen)


class _Test:
    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.node = request.node
        self._name = request.fixturename
        self.ended = False

    def check(self) -> None:
        """Raise :class:`ScenarioError` if the test has ended."""
        if self.ended:
            from rtsim.core.errors import ScenarioError

            raise ScenarioError(
                f"{self._name} belongs to {self.node.nodeid}, which has ended; a test needs its "
                f"own: def test(…, {self._name})"
            )


def _watched(
    test: _Test, fixture: Callable[..., Any], check: Callable[[], list[tuple[str, Judged]]]
) -> Iterator[Callable[..., Any]]:
    def given(*arguments: Any, **options: Any) -> Any:
        test.check()
        return fixture(*arguments, **options)

    test.node.stash.setdefault(_CHECKS, []).append(check)
    try:
        yield given
    finally:
        test.ended = True
    _refuse_unseen(test.node)
