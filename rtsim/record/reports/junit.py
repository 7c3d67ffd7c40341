"""JUnit XML files for continuous integration.

The dialect is that of Jenkins (junit-10.xsd of its xUnit plugin), which other systems also read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

from rtsim.record.comparison import Comparison
from rtsim.record.verdict import SignalResult

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids, such as the colour codes of a sanitizer's report."""


def new_document(name: str) -> ET.Element:
    """Return the root element of a new JUnit document."""
    return ET.Element("testsuites", name=_clean(name))


def finished(root: ET.Element) -> str:
    """Return the document as text, with the counts of all suites."""
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, 0)) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


class Suite:
    """One ``testsuite`` element and its counts."""

    def __init__(self, root: ET.Element, name: str, properties: Mapping[str, object]) -> None:
        self._element = ET.SubElement(root, "testsuite", name=_clean(name))
        self._counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        _list(self._element, properties)

    def case(
        self, classname: str, name: str, properties: Mapping[str, object] | None = None
    ) -> ET.Element:
        """Add a test case.

        Properties of a test case are not in junit-10.xsd, but pytest, Xray and Polarion use them.
        """
        self._counts["tests"] += 1
        names = {"classname": _clean(classname), "name": _clean(name)}
        case = ET.SubElement(self._element, "testcase", names)
        if properties:
            _list(case, properties)
        return case

    def failure(self, case: ET.Element, message: str, text: str) -> None:
        self._counts["failures"] += 1
        element = ET.SubElement(case, "failure", type="difference", message=_clean(message))
        element.text = _clean(text)

    def error(self, case: ET.Element, text: str) -> None:
        self._counts["errors"] += 1
        message = _clean(text.partition("\n")[0])
        ET.SubElement(case, "error", type="error", message=message).text = _clean(text)

    def says(self, text: str) -> None:
        """Add text for the whole suite. The schema requires this text after all test cases."""
        ET.SubElement(self._element, "system-out").text = _clean(text)

    def skipped(self, case: ET.Element, text: str) -> None:
        self._counts["skipped"] += 1
        ET.SubElement(case, "skipped", message=_clean(text))

    def remark(self, case: ET.Element, text: str) -> None:
        ET.SubElement(case, "system-out").text = _clean(text)

    def done(self) -> None:
        for key, count in self._counts.items():
            self._element.set(key, str(count))


def _list(element: ET.Element, properties: Mapping[str, object]) -> None:
    listed = ET.SubElement(element, "properties")
    for key, value in properties.items():
        ET.SubElement(listed, "property", name=_clean(key), value=_clean(str(value)))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


# Comparisons, with one test case for each signal.


def comparison_junit(
    result: Comparison, name: str, properties: Mapping[str, object] | None = None
) -> str:
    """Return the XML document of a comparison; ``name`` is the name of the suite.

    Each signal is one test case. All integers of a track, such as message times, share one test
    case. A signal without rows is skipped. An undecided comparison is an error of the test case
    ``(the outcome is decided)``.
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
