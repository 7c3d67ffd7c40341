"""Commands that read recordings: ``rtsim compare``, ``report``, ``export`` and ``messages``."""

from __future__ import annotations

import heapq
import itertools
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from rtsim.cli.common import (
    json_option,
    reports_errors,
    seconds,
    show_json_rows,
    show_result,
    with_outcome,
)
from rtsim.cli.options import option
from rtsim.cli.terminal import Column, console, print_long_table, print_table
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.record import schedule_trace
from rtsim.record.comparison import Comparison, Tolerance, last_time
from rtsim.record.comparison import compare as compare_recordings
from rtsim.record.export import EXPORTS
from rtsim.record.export import export as write
from rtsim.record.output_files import write_whole
from rtsim.record.reading import Recording, TrackData
from rtsim.record.table import Side, SignalTable, message_table
from rtsim.record.verdict import tolerance_of, what_both_have
from rtsim.runs.progress import ProgressLine

_path = click.Path(path_type=Path)
_MICROSTEP = (
    "s +1: the first microstep of that instant, in which messages that arrived then take effect"
)
_MOST = 20
"""Number of failing signals shown. --all shows the rest."""
_PAGE = b"<!doctype html>"


def tolerances(
    absolute: float, relative: float, single: tuple[str, ...]
) -> dict[str, Tolerance | tuple[float, float]]:
    """Return the tolerances by pattern, from ``--abs``, ``--rel`` and ``--tol GLOB=ABS[,REL]``.

    ``--abs`` and ``--rel`` apply to ``"*"``. Of two tolerances for the same pattern, the last
    one applies. Raises ``ScenarioError`` for a malformed tolerance, and for one that is
    negative or not finite.
    """
    out: dict[str, Tolerance | tuple[float, float]] = {}
    if absolute or relative:
        out["*"] = tolerance_of("*", (absolute, relative))
    for text in single:
        pattern, equals, numbers = text.rpartition("=")
        try:
            values = [float(v) for v in numbers.split(",")]
        except ValueError:
            values = []
        if not equals or len(values) not in (1, 2):
            raise ScenarioError(
                f"--tol {text!r} is malformed; write --tol 'f16.*=ABS' or --tol 'f16.*=ABS,REL'"
            )
        out.pop(pattern, None)  # a repeated pattern moves to its last position
        out[pattern] = tolerance_of(pattern, (values[0], values[1] if len(values) == 2 else 0.0))
    return out


@click.command()
@click.argument("a", type=_path)
@click.argument("b", type=_path)
@click.option(
    "--abs",
    "absolute",
    default=0.0,
    show_default=True,
    help="Absolute tolerance of all signals, each in its own unit.",
)
@click.option(
    "--rel",
    "relative",
    default=0.0,
    show_default=True,
    help="Relative tolerance of all signals, as a fraction of the value in recording A.",
)
@click.option(
    "--tol",
    "single",
    multiple=True,
    metavar="GLOB=ABS[,REL]",
    help="Tolerances of the signals whose names match GLOB; repeatable. If several patterns match, "
    "the last one applies.",
)
@click.option(
    "--common",
    is_flag=True,
    help="Compare rows of equal time instead of rows of equal tag, for runs with different step "
    "sizes.",
)
@click.option(
    "--to",
    "last",
    metavar="T",
    help="Compare up to the simulated time T s.  [default: the end of A]",
)
@click.option(
    "--all", "show_all", is_flag=True, help="Show all signals, including signals that pass."
)
@click.option("--html", type=_path, metavar="PATH", help="Also write a page with plots.")
@click.option("--junit", type=_path, metavar="PATH", help="Also write JUnit XML.")
@json_option
@reports_errors
def compare(
    a: Path,
    b: Path,
    absolute: float,
    relative: float,
    single: tuple[str, ...],
    common: bool,
    last: str | None,
    show_all: bool,
    html: Path | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Compare recording B with baseline A, signal by signal.

    A value passes if |B - A| <= max(ABS, REL*|A|). Without tolerances, every bit must be equal.
    If a recorded run was continued from a checkpoint, the comparison begins at the time of the
    checkpoint.

    \b
    Examples:
      rtsim compare old.mcap new.mcap
      rtsim compare old.mcap new.mcap --tol 'f16.*=1e-6,1e-9' --to 20
      rtsim compare old.mcap new.mcap --html differences.html --junit compare.xml

    Exit status: 0 if B agrees with A, 1 if they differ. 2 if the comparison was undecided: no value
    differs, but A did not reach its requested end, B goes on after the end of A and --to is not
    given, or there was no value to compare.
    """
    if html is not None:
        check_page(html)
    first, second, shared = what_both_have(Recording.open(a), Recording.open(b))
    until_ns = None if last is None else to_ns(last, "--to")
    begun_ns = 0 if shared is None else shared.ns
    if until_ns is not None and until_ns <= begun_ns:
        raise ScenarioError(
            f"the comparison begins at {seconds(begun_ns)} s, and --to {last} is not later; "
            "give a later --to"
        )
    verdict = compare_recordings(
        first,
        second,
        tolerances(absolute, relative, single),
        tags="common" if common else "exact",
        until_ns=until_ns,
    )
    end, goes_on = last_time(first), last_time(second)
    if until_ns is None and end < goes_on and not verdict.undecided:
        rest = (
            f"A ends at {seconds(end)} s and B goes on to {seconds(goes_on)} s, which was not "
            f"compared; to compare only what both have, give --to {seconds(end)}"
        )
        verdict = replace(verdict, undecided=[*verdict.undecided, rest])
    _write_results(verdict, (first, second), html, junit, quiet=as_json)
    if as_json:
        since = {} if shared is None else {"since_s": shared.seconds}
        truncated = [first.truncated, second.truncated]
        data = {**verdict.to_json(), "truncated": truncated, **since}
        show_result(data, verdict.outcome.value, verdict.why)
    else:
        say_cut_off(first, second)
        if shared is not None:
            click.echo(f"compared from {shared} on: one run continues from a checkpoint there")
        print_comparison(verdict, show_all, (first.source, second.source))
    sys.exit(verdict.outcome.value)


def _write_results(
    verdict: Comparison,
    both: tuple[Recording, Recording],
    html: Path | None,
    junit: Path | None,
    *,
    quiet: bool,
) -> None:
    if html is not None:
        from rtsim.record.reports.comparison_pages import comparison_page

        line = ProgressLine(str(html), enabled=sys.stderr.isatty() and not quiet)
        with closing(line):
            written = comparison_page(verdict, *both, line.say)
        _write(html, written, "--html")
    if junit is not None:
        from rtsim.record.reports.junit import comparison_junit

        a, b = (Path(one.source).name for one in both)
        _write(junit, comparison_junit(verdict, f"{a} and {b}"), "--junit")


def _write(path: Path, written: str, option: str) -> None:
    try:
        write_whole(path, written)
    except OSError as error:
        raise RecordingError(
            f"cannot write {path}: {error.strerror}; give another {option} PATH"
        ) from error


_COLUMNS = (
    Column("signal"),
    Column("unit", drop=1),
    Column("rows", number=True, drop=3),
    Column("max abs", number=True),
    Column("max rel", number=True, drop=4),
    Column("first differs", drop=2),
    Column("verdict", fold=True),
)


def print_comparison(
    verdict: Comparison, show_all: bool, names: Sequence[str] = ("the first", "the second")
) -> None:
    """Print the result of a comparison: compared and omitted signals, and the ends of both runs.

    ``names`` are the names of the two recordings. The last line states the result.
    """
    print_signals(verdict, show_all)
    for name, ending in zip(names, verdict.endings, strict=False):
        click.echo(f"{name} {ending}")
    if verdict.extra:
        click.echo(f"only in the second recording: {', '.join(verdict.extra)}")
    if verdict.empty:
        empty = ", ".join(r.name for r in verdict.empty)
        click.echo(f"not compared, because they have no rows: {empty}")
    if any("other tags" in r.reason for r in verdict.failures):
        click.echo("the two recordings have rows at different times; --common pairs rows by time")
    if verdict.outcome is Outcome.FAILED:
        click.echo(f"{len(verdict.failures)} of {len(verdict.results)} signals FAILED")
    elif verdict.outcome is Outcome.PASSED:
        click.echo(f"all {len(verdict.agreed)} signals agree: {verdict.covered}")
    else:
        _print_undecided(verdict)


def _print_undecided(verdict: Comparison) -> None:
    if verdict.agreed:
        agreed = f"nothing differs in {len(verdict.agreed)} signals"
        click.echo(f"{agreed}: {verdict.covered}")
    last = min((ending.reached_ns for ending in verdict.endings), default=0)
    if last and not all(ending.complete for ending in verdict.endings):
        click.echo(f"to compare up to the time that both runs reached: --to {last / NS_PER_S:.9g}")
    for reason in verdict.undecided:
        click.echo(f"could not be decided: {reason}")


def print_signals(verdict: Comparison, show_all: bool) -> None:
    """Print a table of the signals that differ too much, sorted by their difference.

    If no signal differs too much, print the signals that have a remark. With ``show_all``, print
    all signals.
    """
    out = console()
    remarked = [r for r in verdict.worst_first() if r.remark]
    ranked = verdict.worst_first()[: len(verdict.failures)] or remarked
    if show_all:
        ranked = verdict.worst_first()
    shown = ranked if show_all else ranked[:_MOST]
    if shown:
        rows = [r.cells() for r in shown]
        print_table(out, "Comparison", _COLUMNS, rows)
        if any(" s +" in cell for row in rows for cell in row):
            click.echo(_MICROSTEP)
    if len(shown) < len(ranked):
        click.echo(f"… {len(ranked) - len(shown)} more; --all shows them")
    if remarked:
        click.echo(
            "signals that pass only with a tolerance above a tenth of their range: "
            f"{len(remarked)}"
            + (" (--all shows them)" if not show_all and ranked is not remarked else "")
        )


@click.command()
@click.argument("recordings", type=_path, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=_path,
    help="HTML file to write.  [default: the first RECORDING with the suffix .html]",
)
@click.option(
    "--after", default="0", metavar="SECONDS", show_default=True,
    help="Leave out the values before this simulated time (s) from the averages of discrete-event "
    "outputs.",
)  # fmt: skip
@json_option
@reports_errors
def report(recordings: tuple[Path, ...], output: Path | None, after: str, as_json: bool) -> None:
    """Write an HTML page about RECORDING, with plots, messages and timing.

    With several RECORDINGS, the plots show all runs, and tables show the differences from the first
    run.

    \b
    Examples:
      rtsim report runs/f16-001.mcap
      rtsim report runs/f16-001.mcap runs/f16-002.mcap -o both.html
      rtsim report runs/queue-001.mcap -o queue.html --after 100
    """
    opened = [Recording.open(one) for one in recordings]
    target = output or recordings[0].with_suffix(".html")
    check_page(target)
    line = ProgressLine(str(target), enabled=sys.stderr.isatty() and not as_json)
    write = _overlay_of if len(opened) > 1 else _report_of
    try:
        with closing(line):
            extra = write(opened, target, line, after)
    except OSError as error:
        raise RecordingError(
            f"cannot write {target}: {error.strerror}; give another -o PATH"
        ) from error
    if as_json:
        show_result({"report": str(target), "truncated": opened[0].truncated, **extra})
    else:
        say_cut_off(*opened)
        click.echo(f"report: {target}")


def _report_of(
    recordings: list[Recording], target: Path, line: ProgressLine, after: str
) -> dict[str, Any]:
    from rtsim.models.piloting.task import task_section
    from rtsim.record import measured
    from rtsim.record.reports.run_page import write_report
    from rtsim.requirements.chain_section import chain_section
    from rtsim.requirements.section import requirement_section

    recorded, after_ns = recordings[0], to_ns(after, "--after")
    measured.check_after(recorded, after_ns)
    sections = (
        requirement_section([recorded]), task_section(recorded), chain_section(recorded)
    )  # fmt: skip
    write_report(recorded, target, line.say, after, [one for one in sections if one is not None])
    return measured.as_json(recorded, after_ns)


def _overlay_of(
    recordings: list[Recording], target: Path, line: ProgressLine, after: str
) -> dict[str, Any]:
    from rtsim.record.reports.comparison_pages import write_overlay
    from rtsim.requirements.section import requirement_section

    if to_ns(after, "--after"):
        raise ScenarioError("--after is for one recording; leave it out, or give one recording")
    section = requirement_section(recordings)
    write_overlay(recordings, target, line.say, [] if section is None else [section])
    return {"recordings": [one.source for one in recordings]}


def check_page(target: Path) -> None:
    """Check that ``target`` can be written as an HTML page.

    Raises :class:`RecordingError` if the file exists and is not an HTML page, and
    :class:`ScenarioError` if the packages for pages are missing.
    """
    import rtsim.record.reports.page  # noqa: F401 - raises if what a page needs is not installed

    if not target.is_file():
        return
    with target.open("rb") as file:
        start = file.read(len(_PAGE))
    if start and start.lower() != _PAGE:
        raise RecordingError(
            f"{target} exists and is not an HTML page, so it is not overwritten; "
            "give another -o PATH.html"
        )


def say_cut_off(*recordings: Recording) -> None:
    for recorded in recordings:
        if recorded.truncated:
            click.echo(f"the recording was cut off: {recorded.source}: {recorded.truncated}")


@click.command()
@click.argument("recording", type=_path)
@click.option(
    "-o",
    "--output",
    type=_path,
    required=True,
    help="File to write; its suffix gives the format: "
    + ", ".join(f".{name}" for name in EXPORTS)
    + ", or .pftrace for schedules of processors",
)
@click.option(
    "--signals",
    "-s",
    "names",
    multiple=True,
    metavar="NAME",
    help="A component, a signal, a parameter, or a pattern such as 'f16.*_deg'; repeatable.  "
    "[default: all signals]",
)
@click.option("--messages", metavar="PORT", help="Write all messages of PORT instead of signals.")
@click.option(
    "--from",
    "first",
    default="0",
    show_default=True,
    metavar="T",
    help="First time in the table, s.",
)
@click.option("--to", "last", metavar="T", help="Last time in the table, s.  [default: the end]")
@click.option("--rate", type=float, metavar="HZ", help="Rows per second.  [default: recorded rows]")
@click.option(
    "--side",
    type=click.Choice(["plus", "minus"]),
    default="plus",
    show_default=True,
    help="Value to write at a jump of a signal: after the jump (plus) or before it (minus).",
)
@click.option(
    "--own",
    is_flag=True,
    help="Leave the value of a signal empty at times at which its component has no row.",
)
@option("--force")
@json_option
@reports_errors
def export(
    recording: Path,
    output: Path,
    names: tuple[str, ...],
    messages: str | None,
    first: str,
    last: str | None,
    rate: float | None,
    side: Side,
    own: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write signals of RECORDING as a table for other programs.

    The table has one row for each time and one column for each signal. Numbers are not rounded. A
    file with the suffix .pftrace contains the schedules of processors, for https://ui.perfetto.dev.

    \b
    Examples:
      rtsim export runs/f16-001.mcap -o f16.parquet
      rtsim export runs/servos-001.mcap -o servos.pftrace --from 0.1 --to 0.2
      rtsim export runs/f16-001.mcap -o f16.csv -s f16.altitude -s 'autopilot.*' --rate 50
    """
    traces = output.suffix == schedule_trace.SUFFIX
    if not traces:
        _check_format(output)
    if output.is_file() and not force:
        raise RecordingError(f"{output} exists; give another -o PATH, or --force to overwrite it")
    if messages is not None and (names or rate is not None or own or side != "plus"):
        raise ScenarioError(
            "--messages writes all messages; leave --signals, --rate, --side and --own out"
        )
    recorded = Recording.open(recording)
    end = Fraction(recorded.end_ns, NS_PER_S)
    if to_ns(first, "--from") > recorded.end_ns:
        raise RecordingError(
            f"--from {first}: {recording} ends at {float(end):g} s; give an earlier time"
        )
    span = (first, end if last is None else last)
    if traces:
        given = {"--signals": names, "--messages": messages, "--rate": rate, "--own": own,
                 "--side": side != "plus"}  # fmt: skip
        schedule_trace.check_options([name for name, value in given.items() if value])
        span_ns = to_ns(first, "--from"), to_ns(span[1], "--to")
        _show_trace(schedule_trace.write_trace(recorded, output, span_ns), output, as_json)
        return
    if messages is None:
        table = recorded.table(*names, side=side, rate=rate, own=own, span=span)
    else:
        table = message_table(recorded, messages, span)
    if not len(table):
        until = "its end" if last is None else f"{last} s"
        raise RecordingError(
            f"{recording} has no rows from {first} s to {until}; choose a longer time, or give "
            "--rate for values between the rows"
        )
    write(table, output)
    _show(table, output, recorded, as_json)


def _check_format(output: Path) -> None:
    suffix = output.suffix.removeprefix(".")
    if suffix not in EXPORTS:
        known = [*EXPORTS, schedule_trace.SUFFIX.removeprefix(".")]
        raise UnknownName(EXPORTS.what, suffix, known, f"the suffix of {output.name}")


def _show(table: SignalTable, output: Path, recorded: Recording, as_json: bool) -> None:
    if as_json:
        show_result(
            {
                "export": str(output),
                "rows": len(table),
                "columns": list(table.columns),
                "truncated": recorded.truncated,
            }
        )
        return
    say_cut_off(recorded)
    click.echo(f"export: {output}: {len(table)} rows, {len(table.columns)} signals")


def _show_trace(counts: schedule_trace.TraceCounts, output: Path, as_json: bool) -> None:
    if as_json:
        show_result({"export": str(output), **counts._asdict()})
        return
    click.echo(
        f"export: {output}: {counts.tasks} tasks, {counts.slices} slices, {counts.arrows} arrows, "
        f"{counts.missed} missed deadlines; open it at https://ui.perfetto.dev"
    )


# ``rtsim messages``: the messages of a recording with their three time stamps

_STATUS = {0: "", 1: "lost", 2: "copy"}
_PREFIX = "messages/"
_PIECE = 1 << 20
"""Size of the part of a topic's rows that is in memory at one time, bytes."""
_ORDER = (
    "initiated", "initiated_step", "completed", "completed_step", "arrival", "arrival_step",
)  # fmt: skip
_MESSAGE_COLUMNS = (
    Column("topic"),
    Column("seq", number=True, drop=1),
    Column("initiated (s)", number=True),
    Column("completed (s)", number=True, drop=2),
    Column("arrival (s)", number=True),
    Column(""),
    Column("payload", fold=True),
)


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option(
    "--topic",
    default="*",
    show_default=True,
    help="Show only topics whose names match this pattern, such as 'valve*'.",
)
@click.option("--inputs", is_flag=True, help="Also show the inputs that each controller sampled.")
@click.option(
    "--changes",
    is_flag=True,
    help="Show only messages whose payload differs from the previous message.",
)
@click.option(
    "--limit",
    default=0,
    show_default=True,
    help="Maximum number of rows to show; 0 shows all rows.",
)
@json_option
@reports_errors
def messages(
    recording: Path, topic: str, inputs: bool, changes: bool, limit: int, as_json: bool
) -> None:
    """Show the time (s) at which each message in RECORDING was started, completed and received.

    \b
    Examples:
      rtsim messages runs/f16-001.mcap --limit 20
      rtsim messages runs/valves-001.mcap --topic 'valve*' --changes
    """
    if limit < 0:
        raise ScenarioError(f"--limit {limit} is negative; give a whole number >= 0 (0: all rows)")
    recorded = Recording.open(recording)
    if not recorded.trace_rows:
        why = f": {recorded.truncated}" if recorded.truncated else ""
        raise RecordingError(
            f"{recording} contains no rows of the trace{why}, so there are no messages to show"
        )
    found = FoundMessages.of(recorded, topic, inputs, changes)
    hidden = max(0, found.count - limit) if limit else 0
    rows = itertools.islice(found.rows(), limit or None)
    if as_json:
        last = with_outcome({"hidden": hidden, "truncated": recorded.truncated})
        show_json_rows("messages", rows, last)
        return
    say_cut_off(recorded)
    print_long_table(console(), "Messages", _MESSAGE_COLUMNS, map(_cells, rows))
    if hidden:
        click.echo(f"{hidden} more messages; increase --limit to see them")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    arrival = seconds(row["arrival"]) if row["status"] != "lost" else "never"
    payload = ", ".join(f"{k}={v:.6g}" for k, v in row["payload"].items())
    stamps = seconds(row["initiated"]), seconds(row["completed"]), arrival
    return row["topic"], str(row["sequence"]), *stamps, row["status"], payload


@dataclass(frozen=True)
class FoundMessages:
    """Messages that match a pattern, read in parts to save memory."""

    topics: Sequence[_Topic]

    @classmethod
    def of(cls, recording: Recording, pattern: str, inputs: bool, changes: bool) -> FoundMessages:
        """Find the messages whose topic matches ``pattern``.

        ``inputs`` includes the requests of controllers. With ``changes``, omit each message with
        the same payload as the previous message. Raises :class:`UnknownName` if no topic matches.
        """
        topics = [n.removeprefix(_PREFIX) for n in recording.tracks if n.startswith(_PREFIX)]
        chosen = [
            t for t in topics if fnmatch(t, pattern) and (inputs or not t.endswith(".inputs"))
        ]
        if not chosen:
            raise UnknownName("topic", pattern, topics, str(recording.source))
        return cls([_Topic.of(name, recording.track(_PREFIX + name), changes) for name in chosen])

    @property
    def count(self) -> int:
        return sum(topic.count for topic in self.topics)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the messages in the order in which they were initiated."""
        for _, row in heapq.merge(*(t.rows() for t in self.topics), key=_by_key):
            yield row


Key: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True)
class _Topic:
    """The messages of one topic.

    ``shown`` marks the listed messages, and ``None`` means all.
    """

    name: str
    track: TrackData
    shown: NDArray[np.bool_] | None

    @classmethod
    def of(cls, name: str, track: TrackData, changes: bool) -> _Topic:
        return cls(name, track, _mask_of_changed_payloads(track) if changes else None)

    @property
    def count(self) -> int:
        return len(self.track) if self.shown is None else int(self.shown.sum())

    def rows(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        least = self._least()
        waiting: list[tuple[Key, dict[str, Any]]] = []
        at = 0
        for k, piece in enumerate(self.track.pieces(_PIECE)):
            chosen = slice(None) if self.shown is None else self.shown[at : at + len(piece.ns)]
            at += len(piece.ns)
            both = piece.integers[chosen].tolist(), piece.floats[chosen].tolist()
            waiting += [self._row(*row) for row in zip(*both, strict=True)]
            waiting.sort(key=_by_key)
            done = bisect_right(waiting, least[k + 1], key=_by_key) if k + 1 < len(least) else None
            yield from waiting[:done]
            waiting = [] if done is None else waiting[done:]

    def _row(self, stamps: list[int], values: list[float]) -> tuple[Key, dict[str, Any]]:
        row: dict[str, Any] = {"topic": self.name}
        row |= zip(self.track.integers, stamps, strict=True)
        key = (*(row[k] for k in _ORDER), self.name, row["sequence"])
        row["status"] = _STATUS.get(row["status"], "?")
        row["payload"] = dict(zip(self.track.signals.columns, values, strict=True))
        return key, row

    def _least(self) -> list[Key]:
        columns = [self.track.integers.index(k) for k in (*_ORDER, "sequence")]
        out: list[Key] = []
        for piece in self.track.pieces(_PIECE):
            keys = piece.integers[:, columns]
            first = keys[np.lexsort(keys.T[::-1])[0]].tolist()
            out.append((*first[:-1], self.name, first[-1]))
        return list(itertools.accumulate(reversed(out), min))[::-1]


def _by_key(pair: tuple[Key, dict[str, Any]]) -> Key:
    return pair[0]


def _mask_of_changed_payloads(track: TrackData) -> NDArray[np.bool_]:
    out = [np.empty(0, np.bool_)]
    before: NDArray[np.int64] | None = None
    for piece in track.pieces():
        bits = np.ascontiguousarray(piece.floats).view(np.int64)
        last = bits[:1] - 1 if before is None else before
        out.append((bits != np.concatenate([last, bits[:-1]])).any(axis=1))
        if before is None:
            out[-1][0] = True
        before = bits[-1:]
    return np.concatenate(out)
