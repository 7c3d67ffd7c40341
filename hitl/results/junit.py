"""JUnit XML for continuous integration: a test case for each signal, in open and in closed loop,
and one in each for what ended it early.

Written with the standard library: it is four kinds of element, and the packages that write JUnit
XML add no check to that.  The dialect is Jenkins' (junit-10.xsd of its xUnit plugin), which GitLab
and others read too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult
from hitl.comparison.verdict import BackToBack, Flight, allowance
from hitl.results.files import write
from rtsim.record.verdict import SignalResult

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, such as the colours of a sanitizer's report."""


def write_junit(result: BackToBack, path: str | Path) -> None:
    """Write it; :class:`RecordingError` where the file cannot be written."""
    write(Path(path), junit_xml(result))


def junit_xml(result: BackToBack) -> str:
    """The document as text."""
    root = ET.Element("testsuites", name=_clean(f"back to back: {result.scenario}"))
    for name, loop in result.open.items():
        _open(root, result, name, loop)
    if result.flight is not None:
        _closed(root, result, result.flight)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, 0)) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _open(root: ET.Element, result: BackToBack, name: str, loop: OpenLoop) -> None:
    properties = {**result.settings, **loop.about, "steps": loop.steps}
    if loop.execution is not None:
        properties["execution"] = loop.execution.in_words
    suite = _Suite(root, f"{result.scenario}: open loop of {name}", properties)
    classname = f"{result.scenario}.open_loop.{name}"
    for signal in loop.signals:
        case = suite.case(classname, signal.name)
        if not signal.ok:
            suite.failure(case, f"{name}.{signal.name}: {signal.reason}", _where(loop, signal))
    answers = suite.case(classname, "(every step is answered)")
    if loop.error:
        suite.error(answers, loop.error)
    suite.done()


def _where(loop: OpenLoop, signal: OutputResult) -> str:
    """Signal, step, tag, values, tolerance and inputs."""
    if signal.step is None:
        return signal.reason
    moment = loop.moment(signal, signal.step)
    given = "no answer" if moment.translation is None else repr(moment.translation)
    lines = {
        "signal": f"{moment.signal} [{signal.unit}]",
        "step": moment.step,
        "tag": moment.tag,
        "design": repr(moment.design),
        "C": given,
        "allowed": f"{moment.allowed:.17g} = {allowance(signal)}",
        "largest difference": f"{signal.max_abs:.6g}, {signal.max_ulp:.6g} ULP of {signal.type}",
        "inputs": moment.inputs_in_words,
    }
    return "\n".join(f"{key}: {value}" for key, value in lines.items())


def _closed(root: ET.Element, result: BackToBack, flight: Flight) -> None:
    properties = {**result.settings, "late": flight.late, "missed": flight.missed}
    for name, execution in flight.execution.items():
        properties[f"execution of {name}"] = execution.in_words
    suite = _Suite(root, f"{result.scenario}: closed loop", properties)
    classname = f"{result.scenario}.closed_loop"
    for signal in flight.comparison.results:
        case = suite.case(classname, signal.name)
        if not signal.ok:
            text = f"{_details(flight, signal)}\n{result.explanation}"
            suite.failure(case, f"{signal.name}: {signal.reason}", text)
    end = suite.case(classname, "(it flies to the end)")
    if flight.error:
        suite.error(end, flight.error)
    suite.done()


def _details(flight: Flight, signal: SignalResult) -> str:
    lines: dict[str, object] = {"signal": f"{signal.name} [{signal.unit}]", "why": signal.reason}
    if signal.first_failed is not None:
        lines["tag"] = signal.first_failed
    values = flight.values(signal)
    if values is not None:
        lines["design"], lines["C"] = values
    lines["allowed"] = allowance(signal)
    lines["largest difference"] = f"{signal.max_abs:.6g}"
    return "\n".join(f"{key}: {value}" for key, value in lines.items())


class _Suite:
    """One ``testsuite`` and its counts."""

    def __init__(self, root: ET.Element, name: str, properties: Mapping[str, object]) -> None:
        self._element = ET.SubElement(root, "testsuite", name=_clean(name))
        self._counts = {"tests": 0, "failures": 0, "errors": 0}
        listed = ET.SubElement(self._element, "properties")
        for key, value in properties.items():
            ET.SubElement(listed, "property", name=_clean(key), value=_clean(str(value)))

    def case(self, classname: str, name: str) -> ET.Element:
        self._counts["tests"] += 1
        names = {"classname": _clean(classname), "name": _clean(name)}
        return ET.SubElement(self._element, "testcase", names)

    def failure(self, case: ET.Element, message: str, text: str) -> None:
        self._counts["failures"] += 1
        element = ET.SubElement(case, "failure", type="difference", message=_clean(message))
        element.text = _clean(text)

    def error(self, case: ET.Element, text: str) -> None:
        self._counts["errors"] += 1
        message = _clean(text.partition("\n")[0])
        ET.SubElement(case, "error", type="error", message=message).text = _clean(text)

    def done(self) -> None:
        for key, count in self._counts.items():
            self._element.set(key, str(count))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
