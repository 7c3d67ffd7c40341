"""What a scenario knows of prepared runs, which are made of scenarios and so lie above them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from rtsim.core.tag import Duration


class PreparedRuns(Protocol):
    """A scenario that is ready for many runs: :class:`rtsim.runs.prepared.Prepared`."""

    rebuilt: tuple[str, ...]
    """Names of the components because of which each run builds the scenario anew."""

    def run(
        self,
        *,
        seed: int = 0,
        set: Mapping[str, object] | None = None,
        until: Duration | None = None,
        record: bool | Collection[str] = True,
    ) -> Any:
        """Run once; return the :class:`rtsim.runs.result.RunResult`."""
