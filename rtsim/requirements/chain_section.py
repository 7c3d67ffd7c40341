"""Tables and charts of data ages and reaction times, for the report of a run."""

from __future__ import annotations

import numpy as np

from rtsim.core.errors import RtsimError
from rtsim.record.ages import Ages, Worst, ages
from rtsim.record.markup import table, text
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import COMMAND, RESPONSE, Chart, Line, grid, thin
from rtsim.record.reports.page import Section
from rtsim.requirements.chains import Chain, chains_of

_HEAD = (
    "chain", "values", "least [ms]", "median [ms]", "p99 [ms]", "worst age [ms]",
    "worst reaction [ms]", "messages of the worst age",
)  # fmt: skip
_NOTE = (
    "The age at a time is the time since the sample on which the value in use depends. Median and "
    "p99 count the time for which each age was in use."
)


def chain_section(recording: Recording) -> Section | None:
    """Return the report section of the declared chains, or None without any."""
    try:
        found = [(chain, ages(recording, chain.elements)) for chain in chains_of(recording.header)]
    except RtsimError as error:
        said = f"The ages were not computed: {error}"
        return "chains", "Chains", f"<p>{text(said)}</p>"
    if not found:
        return None
    body = table(_HEAD, [_row(chain, one) for chain, one in found], numeric=1)
    charts = [chart for chain, one in found if len(one) for chart in _charts(chain, one)]
    return "chains", "Chains", f"{body}<p class=soft>{text(_NOTE)}</p>{grid(charts)}"


def _row(chain: Chain, one: Ages) -> tuple[object, ...]:
    name = f"{chain.name}: {' -> '.join(chain.elements)}"
    if not len(one):
        return name, 0, "", "", "", "", "", one.reason
    figures = (one.least, one.quantile(50), one.quantile(99))
    worst = (one.worst_age, one.worst_reaction)
    return name, len(one), *map(_ms, figures), *map(_of, worst), str(one.worst_age)


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.6g}"


def _of(worst: Worst | None) -> str:
    return "" if worst is None else _ms(worst.ns)


def _charts(chain: Chain, one: Ages) -> list[Chart]:
    times = np.stack((one.begins, one.ends), axis=1).ravel() / 1e9
    values = np.stack((one.youngest, one.oldest), axis=1).ravel() / 1e6
    edges, shares = one.histogram(30)
    bars = Line("share of time", edges / 1e6, np.append(shares, shares[-1]) * 100, RESPONSE, True)
    return [
        Chart(f"{chain.name}: data age [ms]", [Line("age", *thin(times, values), COMMAND)]),
        Chart(f"{chain.name}: share of time [%]", [bars], "data age [ms]", timed=False),
    ]
