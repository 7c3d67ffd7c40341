"""Fixtures for a user's own tests: ``sil``, ``plant``, ``back_to_back``, ``faults``, ``pitl`` and
``board``; ``--board=URL`` is the board of the last two.

Each of the others is a function that makes what :mod:`hitl` calls by the same name.  Files are
looked for beside the test file; what goes wrong is saved below ``tmp_path``.  Every pytest of the
environment loads this module: it imports nothing that is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hitl.contexts import BoardUnderTest, Reported, ReportedLadder
    from hitl.plants import InPlace, Reference, TestPlant
    from hitl.stepping import Sil
    from rtsim.engine.faults import Fault
    from rtsim.engine.faults.reading import Given

CASES = "cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--board=URL``: the board of a session's tests."""
    parser.getgroup("rtsim").addoption(
        "--board",
        default="board:uno",
        metavar="URL",
        help="Board of the fixtures board and pitl: board:uno, emulated (the default), or "
        "serial:///dev/ttyACM0?baud=500000, serial://COM3.",
    )


@pytest.fixture
def sil(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Sil]]:
    """``sil("pid.toml", gain=2.0)``: the running C; closed after the test at the latest."""
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
def plant(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., TestPlant]:
    """``plant("scenario.py", mass=2.0)``: a scenario to be flown, by the design or by C."""
    from hitl.plants import TestPlant

    folder = request.path.parent

    def declared(scenario: Reference, /, **settings: object) -> TestPlant:
        return TestPlant(scenario, settings, cases=tmp_path / CASES, folder=folder)

    return declared


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Callable[..., tuple[Fault, ...]]:
    """``faults("faults.toml")``, or the entries of faults as dicts: for ``plant(...).fly``."""
    from hitl.plants import faults_beside

    folder = request.path.parent

    def described(*given: Given) -> tuple[Fault, ...]:
        return faults_beside(folder, given)

    return described


@pytest.fixture
def back_to_back(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Reported]:
    """``back_to_back("scenario.py", {"controller": "pid.toml"}).assert_ok()``.

    One that fails writes its page below ``tmp_path``, which the failing test's report names.
    """
    from hitl.contexts import back_to_back as compared

    return _reporting(compared, request, tmp_path, "back to back")


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Iterator[BoardUnderTest]:
    """The board of the session: its ``url``, and ``open("pid.toml:single")`` for its line."""
    from hitl.contexts import BoardUnderTest

    with ExitStack() as stack:
        url = str(request.config.getoption("--board"))
        yield BoardUnderTest(url, stack, request.path.parent)


@pytest.fixture
def pitl(
    request: pytest.FixtureRequest, tmp_path: Path, board: BoardUnderTest
) -> Callable[..., ReportedLadder]:
    """``pitl("scenario.py", {"controller": "pid.toml:single"}).assert_ok()``, on that board.

    One that fails writes its page below ``tmp_path``, which the failing test's report names.
    """
    from hitl.contexts import pitl as climbed

    return _reporting(climbed, request, tmp_path, "pitl", board=board.url)


def _reporting(
    compare: Callable[..., Any],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    title: str,
    **defaults: object,
) -> Callable[..., Any]:
    """``compare`` with files beside the test, cases and pages below ``tmp_path``."""
    stem = title.replace(" ", "-")
    pages = (tmp_path / f"{stem}-{number}.html" for number in count(1))

    def held(scenario: Reference, controllers: InPlace, /, **options: Any) -> Any:
        own = {"cases": tmp_path / CASES, "page": next(pages), **defaults}
        result = compare(scenario, controllers, folder=request.path.parent, **{**own, **options})
        if result.page is not None:
            request.node.add_report_section("call", title, f"page: {result.page}")
        return result

    return held
