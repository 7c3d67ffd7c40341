"""Requirements that are watched during a run: the same bounds as those of the recording so far."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from logic_parts import Rows, pieces, random_formula, random_rows

from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Signals
from rtsim.record.component_values import MESSAGES
from rtsim.record.schema import TrackSpec
from rtsim.requirements.language import parse
from rtsim.requirements.monitor import Monitor
from rtsim.requirements.robustness import Evaluation

NAMES = ("a.x", "b.y")
SPECS = {
    name: TrackSpec(
        name.partition(".")[0], ("step", "side"), Signals(Signal(name.partition(".")[2], ""))
    )
    for name in NAMES
}


def monitor_of(*formulas: str, **header: Any) -> Monitor:
    required = [{"name": f"R{k}", "formula": text} for k, text in enumerate(formulas)]
    return Monitor({"requirements": required, **header}, list(SPECS.values()))


def words_of(rows: Rows) -> np.ndarray[Any, Any]:
    """The rows as a track stores them; order is twice the microstep plus the side."""
    words = np.empty((len(rows), 4), np.int64)
    for k, (ns, order, value) in enumerate(rows):
        words[k, :3] = ns, order // 2, order % 2
        words[k, 3:].view(np.float64)[0] = value
    return words


def check_formula(seed: int) -> None:
    chance = random.Random(seed)
    end = chance.randint(0, 25)
    signals = {name: random_rows(chance, end) for name in NAMES}
    text = random_formula(chance, chance.randint(1, 3), NAMES)
    node, monitor = parse(text), monitor_of(text)

    def offline(until: int, complete: bool) -> list[float]:
        rows = {n: [row for row in some if row[0] <= until] for n, some in signals.items()}
        read = Evaluation(lambda one: pieces(rows[one.name], until), 0, until, complete)
        return [*map(float, read(node)[node].at(0) + 0.0)]

    final = offline(end, True)
    done, now = -1, chance.randint(0, 3)
    while now < end:
        for name, rows in signals.items():
            monitor.track(SPECS[name].name, words_of([r for r in rows if done < r[0] <= now]))
        (found,) = monitor.look(now)
        low, high, sure, possible = offline(now, False)
        assert (found.low, found.high) == (low, high), f"{text}\n{signals}\nat {now}"
        assert low <= final[0] and final[1] <= high
        assert (found.outcome is Outcome.FAILED) == (possible < 0)
        assert found.outcome is not Outcome.PASSED or sure > 0
        done, now = now, now + chance.randint(1, 6)
    for name, rows in signals.items():
        monitor.track(SPECS[name].name, words_of([row for row in rows if row[0] > done]))
    (found,) = monitor.look(end, complete=True)
    assert [found.low, found.high] == final[:2], f"{text}\n{signals}\nuntil {end}"
    assert (found.outcome is Outcome.FAILED) == (final[3] < 0)


def test_bounds_during_a_run_equal_those_of_its_recording() -> None:
    """At each time, they also contain the final robustness."""
    for seed in range(600):
        check_formula(seed)


@pytest.mark.long
def test_bounds_during_10000_runs_equal_those_of_their_recordings() -> None:
    for seed in range(600, 10_600):
        check_formula(seed)
