"""Shared by all tests: hypothesis's profiles, and the marks of docs/semantics.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from hitl.boards import BoardError, emulators
from hitl.boards.pico import PICO
from hitl.worker.links import LINKS, SHM, chosen_link

# A red build is the fault of the change, so `make test` draws the same examples each time;
# `make test-all` looks for new ones.  `pytest --hypothesis-profile full` chooses by hand.
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, database=None)
settings.register_profile("full", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rule(name): shows the rule of that name in semantics.md")


@pytest.fixture(scope="session")
def emulator() -> None:
    """Skips where set-up could not fetch the emulated Uno; a continuous integration has to."""
    _fetched(emulators.command)


@pytest.fixture(scope="session")
def pico() -> None:
    """Skips where set-up could not fetch the emulated Pico; a continuous integration has to."""
    _fetched(PICO.emulators["rp2040js"].command)


def _fetched(command: Callable[[], object]) -> None:
    try:
        command()
    except BoardError as error:
        if os.environ.get("RTSIM_STRICT"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(params=LINKS)
def each_link(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once over each link to workers; a worker that is no build of rtsim, too."""
    name: str = request.param
    if name == SHM and not sys.platform.startswith("linux"):
        pytest.skip("shared memory with a worker needs Linux")
    monkeypatch.setattr(
        "hitl.controllers.sil.chosen_link",
        lambda asked, library, *, ours, served: (
            chosen_link(asked or (None if served else name), library, ours=ours, served=served)
        ),
    )  # fmt: skip
    return name


@pytest.fixture
def empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a new folder the current one; no scenario file beside it is found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


@pytest.fixture(autouse=True)
def _no_collection_before_a_run(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave out the garbage collection before a paced run, except in tests that judge time.

    In a process that has run thousands of tests it takes up to a second.  The fixture
    ``monkeypatch`` would begin here, and end after the fixtures of the test.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("realtime") is None:
            patch.setattr("rtsim.timing.scheduling._collect", int)
        yield


@pytest.fixture(autouse=True)
def _no_window_is_left() -> Iterator[None]:
    """Fail a test that leaves SDL's display open: the next test would get that video driver."""
    yield
    pygame = sys.modules.get("pygame")
    if pygame is not None and pygame.display.get_init():
        driver = pygame.display.get_driver()
        pygame.display.quit()
        pytest.fail(f"the test leaves the display of SDL's driver {driver!r} open", pytrace=False)
