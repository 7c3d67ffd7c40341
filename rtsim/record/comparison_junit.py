"""The result of a comparison as JUnit XML: one test case for each signal."""

from __future__ import annotations

from collections.abc import Mapping

from rtsim.record.comparison import Comparison
from rtsim.record.junit import Suite, finished, new_document
from rtsim.record.verdict import SignalResult


def comparison_junit(
    result: Comparison, name: str, properties: Mapping[str, object] | None = None
) -> str:
    """Return the XML document; ``name`` is that of the suite.

    The integers beside the signals of a track, such as the times of messages, are one test case for
    each track.  A signal without rows is skipped.  If the comparison is undecided, the test case
    ``(the outcome is decided)`` is an error.
    """
    root = new_document(f"compare: {name}")
    suite = Suite(root, name, {"compared": result.covered, **(properties or {})})
    stamps: dict[str, list[SignalResult]] = {}
    for signal in result.results:
        track, _, column = signal.name.rpartition(".")
        if signal.stamp:
            stamps.setdefault(track, []).append(signal)
            continue
        case = suite.case(f"compare.{track}" if track else "compare", column)
        if signal.reason:
            suite.failure(case, f"{signal.name}: {signal.reason}", _details(signal))
        elif signal.empty:
            suite.skipped(case, f"{signal.name} has no rows to compare")
        elif signal.remark:
            suite.remark(case, signal.remark)
    for track, found in stamps.items():
        case = suite.case(f"compare.{track}", "(times and stamps)")
        failed = [one for one in found if one.reason]
        if failed:
            text = "\n\n".join(map(_details, failed))
            suite.failure(case, f"{failed[0].name}: {failed[0].reason}", text)
        elif all(one.empty for one in found):
            suite.skipped(case, f"{track} has no rows to compare")
    decided = suite.case("compare", "(the outcome is decided)")
    if result.why and not result.failures:
        suite.error(decided, result.why)
    suite.done()
    return finished(root)


def _details(signal: SignalResult) -> str:
    lines: dict[str, object] = {
        "signal": f"{signal.name} [{signal.unit}]" if signal.unit else signal.name,
        "why": signal.reason,
        "rows": f"{signal.rows} of {signal.there}",
        "allowed": f"max({signal.tolerance.absolute:g}, {signal.tolerance.relative:g} |baseline|)",
        "largest difference": f"{signal.max_abs:.6g}, relative {signal.max_rel:.6g}",
    }
    if signal.first_failed is not None:
        lines["first failure"] = signal.first_failed
    return "\n".join(f"{key}: {value}" for key, value in lines.items())
