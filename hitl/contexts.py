"""A translation held against its design in a user's own test, with a page of what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from hitl.building.build import PLAIN
from hitl.comparison.back_to_back import back_to_back as compared
from hitl.comparison.tolerances import Tolerances
from hitl.comparison.verdict import BackToBack
from hitl.controllers.sil import CASES
from hitl.plants import HERE, InPlace, Reference, beside, in_c, made
from hitl.results.page import write_page
from rtsim.latency import Latencies
from rtsim.record.reading import Recording
from rtsim.simulation import MAX, Pace
from rtsim.tag import Duration


@dataclass(frozen=True, eq=False, repr=False)
class Reported(BackToBack):
    """A result that names its page where it fails.  Leaving its context changes nothing."""

    page: Path | None = None
    """Written where something differs, if one was asked for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Everything was closed before there was a result."""

    def assert_ok(self) -> None:
        """Raise :class:`AssertionError` that names signal, step, values and the page."""
        __tracebackhide__ = True
        if not self.ok:
            raise AssertionError(self.told)

    @property
    def told(self) -> str:
        return self.in_words if self.page is None else f"{self.in_words}\npage: {self.page}"

    def __repr__(self) -> str:
        """What a failing ``assert result.ok`` shows."""
        return f"<{self.told}>"


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
    closed: bool = True,
    build: str = PLAIN,
    page: Path | None = None,
    cases: Path = CASES,
    folder: Path = HERE,
    settings: Mapping[str, object] | None = None,
    **more_settings: object,
) -> Reported:
    """Hold C, by the part whose place it takes, against its design in ``scenario``.

    Keywords that are not named here are settings of the scenario; ``settings`` are those whose
    names are taken.  ``page`` is written where something differs; files are relative to
    ``folder``.  The rest is that of :func:`hitl.comparison.back_to_back.back_to_back`.
    """
    given = folder / recording if isinstance(recording, str | Path) else recording
    result = compared(
        made(beside(folder, scenario), {**(settings or {}), **more_settings}),
        in_c(controllers, build, cases, folder),
        pace=pace,
        latency=latency,
        until=until,
        seed=seed,
        tolerances=tolerances,
        recording=given,
        closed=closed,
    )
    values: dict[str, Any] = {f.name: getattr(result, f.name) for f in fields(result)}
    if result.ok or page is None:
        return Reported(**values)
    write_page(result, page)
    return Reported(**values, page=page)
