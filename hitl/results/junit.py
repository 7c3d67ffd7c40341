"""Write JUnit XML for continuous integration.

Each signal is a test case, in open and in closed loop. Further test cases cover missing answers and
the end of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from hitl.comparison.execution import OnTarget
from hitl.comparison.flight import LoopComparison, allowance
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult
from hitl.comparison.verdict import BackToBack, ComparisonChain, Stimulated
from hitl.results.columns import facts, faults_of, write
from rtsim.cli.check import requirement_suite
from rtsim.core.outcome import Outcome
from rtsim.record.reports.junit import Suite, finished, new_document
from rtsim.record.verdict import SignalResult


def write_junit(
    result: BackToBack | ComparisonChain, path: str | Path, strict: bool = False
) -> None:
    """Write :func:`junit_xml` to ``path``; raise :class:`RecordingError` on failure."""
    write(Path(path), junit_xml(result, strict))


def junit_xml(result: BackToBack | ComparisonChain, strict: bool = False) -> str:
    """Return the XML document.

    With ``strict``, each fault without effect is a failure. With ``strict``, other doubts about a
    passed comparison are failures too.
    """
    root = new_document(f"back to back: {result.scenario}")
    for pair in result.pairs:
        several = len(result.pairs) > 1  # the name of each suite then includes its pair
        for name, loop in pair.open.items():
            _open(root, pair, name, loop, several)
        for stimulated in pair.stimulated.values():
            _stimulated(root, pair, stimulated, several)
        if pair.flight is not None:
            _closed(root, pair, pair.flight, several)
        title, prefix = _titles(pair, several)
        for run, results in pair.required.shown.items():
            classname = f"{prefix}.requirements.{run.replace(' ', '_')}"
            suite = f"{title}: requirements on the run with the {run}"
            requirement_suite(root, suite, classname, results)
    _faults(root, result, strict)
    _doubts(root, result, strict)
    return finished(root)


def _open(root: ET.Element, result: BackToBack, name: str, loop: OpenLoop, several: bool) -> None:
    properties = {**result.settings, **loop.about, "steps": loop.steps, "compared": loop.covered}
    properties |= _unexercised(loop.exercise.in_words)
    if loop.execution is not None:
        properties["execution"] = loop.execution.in_words
    if loop.target is not None:
        properties |= _of_target(name, loop.target)
    title, prefix = _titles(result, several)
    suite = Suite(root, f"{title}: open loop of {name}", properties)
    classname = f"{prefix}.open_loop.{name}"
    for signal in loop.signals:
        case = suite.case(classname, signal.name)
        unanswered = loop.environment and signal.step == loop.answered
        if unanswered:
            suite.error(case, f"{name}.{signal.name}: {signal.reason}")
        elif signal.reason:
            suite.failure(case, f"{name}.{signal.name}: {signal.reason}", _where(loop, signal))
        elif signal.remark:
            suite.remark(case, signal.remark)
    answers = suite.case(classname, "(every step is answered)")
    if loop.error:
        suite.error(answers, loop.error)
    for check in loop.checks:
        case = suite.case(classname, f"({check.what})")
        if check.problem:
            suite.failure(case, check.problem, check.problem)
    moved = suite.case(classname, "(some output moves)")
    if not loop.exercise.any:
        suite.error(moved, f"{name}: {loop.exercise.nothing}")
    if loop.warnings:
        suite.says(f"Compiler warnings about {name}:\n{loop.warnings}")
    suite.done()


def _stimulated(root: ET.Element, result: BackToBack, one: Stimulated, several: bool) -> None:
    title, prefix = _titles(result, several)
    suite = Suite(root, f"{title}: stimuli of {one.name}", {"compared": one.covered})
    for number, loop in enumerate(one.loops):
        case = suite.case(f"{prefix}.stimuli.{one.name}", f"stimulus {number + 1}")
        reaches = one.reaches(number)
        if loop.outcome is Outcome.FAILED:
            suite.failure(case, loop.in_words, f"reaches {reaches}")
        elif loop.outcome is Outcome.UNDECIDED:
            suite.error(case, loop.in_words)
        elif reaches:
            suite.remark(case, f"reaches {reaches}")
    suite.done()


def _unexercised(sentences: Sequence[str]) -> dict[str, str]:
    return {"not exercised": "; ".join(sentences)} if sentences else {}


def _faults(root: ET.Element, result: BackToBack | ComparisonChain, strict: bool) -> None:
    found = faults_of(result.pairs)
    if not found:
        return
    suite = Suite(root, f"{result.scenario}: faults", {})
    for fault in found:
        case = suite.case(f"{result.scenario}.faults", fault.name)
        about = f"{fault.kind} at {fault.where}: {fault.activations} activations"
        if fault.activations:
            suite.remark(case, about)
            continue
        why = f"{fault.name} never acted{f': {fault.idle}' if fault.idle else ''}"
        if strict:
            suite.failure(case, why, about)
        else:
            suite.skipped(case, why)
    suite.done()


def _doubts(root: ET.Element, result: BackToBack | ComparisonChain, strict: bool) -> None:
    if not result.ok or not result.doubts:
        return
    suite = Suite(root, f"{result.scenario}: doubts", {})
    for text in result.doubts:
        case = suite.case(f"{result.scenario}.doubts", text)
        if strict:
            suite.failure(case, text, text)
        else:
            suite.skipped(case, text)
    suite.done()


def _titles(result: BackToBack, several: bool) -> tuple[str, str]:
    if not several:
        return result.scenario, result.scenario
    key = result.sides.key.replace(" ", "_")
    return f"{result.scenario}: {result.sides.gap}", f"{result.scenario}.{key}"


def _of_target(name: str, target: OnTarget, late: int = 0, missed: int = 0) -> dict[str, str]:
    out = {f"{what} of {name}": text for what, text in facts(target, late, missed).items()}
    if target.exchange is not None:
        out[f"exchanges of {name}"] = target.exchange.in_words
    return out


def _where(loop: OpenLoop, signal: OutputResult) -> str:
    if signal.step is None:
        return signal.reason
    moment = loop.moment(signal, signal.step)
    given = "no answer" if moment.translation is None else repr(moment.translation)
    lines = {
        "signal": f"{moment.signal} [{signal.unit}]",
        "step": moment.step,
        "tag": moment.tag,
        loop.sides.reference: repr(moment.design),
        loop.sides.translation: given,
        "allowed": f"{moment.allowed:.17g} = {allowance(signal)}",
        "largest difference": f"{signal.max_abs:.6g}, {signal.max_ulp:.6g} ULP of {signal.type}",
        "inputs": moment.inputs_in_words,
    }
    return "\n".join(f"{key}: {value}" for key, value in lines.items())


def _closed(root: ET.Element, result: BackToBack, flight: LoopComparison, several: bool) -> None:
    properties = {**result.settings, "late": flight.late, "missed": flight.missed}
    properties |= {"compared": flight.covered.in_words, **_unexercised(result.reserved)}
    for name, target in flight.targets.items():
        properties |= _of_target(name, target, flight.late, flight.missed)
    for name, execution in flight.execution.items():
        properties[f"execution of {name}"] = execution.in_words
    title, prefix = _titles(result, several)
    suite = Suite(root, f"{title}: closed loop", properties)
    classname = f"{prefix}.closed_loop"
    for signal in flight.comparison.results:
        case = suite.case(classname, signal.name)
        text = f"{_details(flight, signal)}\n{result.explanation}"
        if flight.excuses(signal):
            suite.error(case, f"{signal.name}: {signal.reason}\n{text}")
        elif signal.reason:
            suite.failure(case, f"{signal.name}: {signal.reason}", text)
        elif signal.remark:
            suite.remark(case, signal.remark)
    end = suite.case(classname, "(the run reaches its end)")
    if flight.error:
        suite.error(end, flight.error)
    decided = suite.case(classname, "(the outcome is decided)")
    if flight.undecided:
        suite.error(decided, flight.undecided)
    suite.done()


def _details(flight: LoopComparison, signal: SignalResult) -> str:
    lines: dict[str, object] = {"signal": f"{signal.name} [{signal.unit}]", "why": signal.reason}
    if signal.first_failed is not None:
        lines["tag"] = signal.first_failed
    values = flight.values(signal)
    if values is not None:
        lines[flight.sides.reference], lines[flight.sides.translation] = values
    lines["allowed"] = allowance(signal)
    lines["largest difference"] = f"{signal.max_abs:.6g}"
    return "\n".join(f"{key}: {value}" for key, value in lines.items())
