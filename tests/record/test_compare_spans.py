"""How much of two recordings was compared, and which of them lacks the rest."""

from __future__ import annotations

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signals
from rtsim.record.comparison import ComparedRows, Comparison, compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder

MS = 1_000_000


def run(*at_ms: int, messages: int = 0, reason: str = "end") -> Recording:
    """A plant with rows at these times, and so many messages, one at each row from the first on."""
    recorder = MemoryRecorder()
    plant = recorder.track("p", ("step", "side"), Signals("w", "x", "y", "z"))
    topic = recorder.track("messages/m", ("sequence",), Signals("u"))
    last = max(at_ms, default=0) * MS
    recorder.start({"until": last})
    for ms in at_ms:
        plant.append(ms * MS, (0, 0), np.zeros(4))
    for k, ms in enumerate(at_ms[:messages]):
        topic.append(ms * MS, (k,), np.zeros(1))
    recorder.finish({"reason": reason, "error": "ModelError: x", "ended": last})
    return recorder.recording()


@pytest.mark.parametrize("found", [Comparison([]), compare(run(), run())])
def test_nothing_that_was_compared_is_no_rows_and_no_time(found: Comparison) -> None:
    assert found.covered == (0, 0, 0, 0) == ComparedRows()
    assert found.outcome is Outcome.UNDECIDED
    told = found.to_json()
    assert (told["rows"], told["rows_there"], told["from_s"], told["to_s"]) == (0, 0, 0.0, 0.0)
    assert str(found.covered) == "0 of 0 rows, 0 to 0 s"


def test_the_span_that_was_compared_is_told_in_seconds() -> None:
    found = compare(run(500, 700, 2000), run(500, 700, 2000))
    told = found.to_json()
    assert (told["rows"], told["rows_there"], told["from_s"], told["to_s"]) == (3, 3, 0.5, 2.0)
    assert str(found.covered) == "3 of 3 rows, 0.5 to 2 s"


def test_a_row_that_one_lacks_at_its_early_end_is_that_ones_alone() -> None:
    """Both end at 2 ms, one of them by an error before its message of that time."""
    whole, died = run(0, 1, 2, messages=3), run(0, 1, 2, messages=2, reason="error")
    found = compare(whole, died)
    assert (found.outcome, found.undecided) == (Outcome.FAILED, [])
    assert [r.name for r in found.failures] == ["overlap"]
    found = compare(died, whole)
    assert (found.outcome, found.failures) == (Outcome.UNDECIDED, [])
    (why,) = found.undecided
    assert why.startswith("the baseline ended in an error at 0.002 s")
    assert why.endswith("; later values are not known")


def test_a_baseline_that_stopped_early_decides_nothing_though_all_its_rows_are_there() -> None:
    found = compare(run(0, 1, 2, reason="error"), run(0, 1, 2, 3))
    assert (found.outcome, found.failures) == (Outcome.UNDECIDED, [])
    assert [why.rpartition("; ")[2] for why in found.undecided] == ["later values are not known"]


def test_a_pattern_without_a_signal_is_refused_with_three_examples() -> None:
    with pytest.raises(ScenarioError) as raised:
        compare(run(0), run(0), {"q.*": (1.0, 0.0)})
    said = "no signal matches 'q.*'; names of signals are, for example, p.w, p.x, p.y"
    assert str(raised.value) == said
