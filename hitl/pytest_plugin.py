"""Fixtures for a user's own tests: ``sil``, ``plant``, ``back_to_back`` and ``faults``.

Each is a function that makes what :mod:`hitl` calls by the same name.  Files are looked for beside
the test file; what goes wrong is saved below ``tmp_path``.  Every pytest of the environment loads
this module: it imports nothing that is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hitl.contexts import Reported
    from hitl.plants import InPlace, Plant, Reference
    from hitl.stepping import Sil
    from rtsim.faults import Fault
    from rtsim.faults.reading import Given

CASES = "cases"


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
def plant(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Plant]:
    """``plant("scenario.py", mass=2.0)``: a scenario to be flown, by the design or by C."""
    from hitl.plants import Plant

    folder = request.path.parent

    def declared(scenario: Reference, /, **settings: object) -> Plant:
        return Plant(scenario, settings, cases=tmp_path / CASES, folder=folder)

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

    folder = request.path.parent
    pages = (tmp_path / f"back-to-back-{number}.html" for number in count(1))

    def held(scenario: Reference, controllers: InPlace, /, **options: Any) -> Reported:
        options.setdefault("cases", tmp_path / CASES)
        options.setdefault("page", next(pages))
        result = compared(scenario, controllers, folder=folder, **options)
        if result.page is not None:
            request.node.add_report_section("call", "back to back", f"page: {result.page}")
        return result

    return held
