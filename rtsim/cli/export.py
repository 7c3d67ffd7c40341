"""``rtsim export`` and ``rtsim messages``: signals and messages of a recording."""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from rtsim.cli.recordings import say_cut_off
from rtsim.cli.terminal import Column, console, print_long_table
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.record.export import EXPORTS
from rtsim.record.export import export as write
from rtsim.record.reading import Recording, TrackData
from rtsim.record.table import Side, SignalTable, message_table

_path = click.Path(path_type=Path)


@click.command()
@click.argument("recording", type=_path)
@click.option(
    "-o",
    "--output",
    type=_path,
    required=True,
    help="File to write: .csv, .parquet, .mat, .h5, .nc or .npz.",
)
@click.option(
    "--signals",
    "-s",
    "names",
    multiple=True,
    metavar="NAME",
    help="A component, a signal, or a pattern such as 'f16.*_deg'; repeatable.  [default: all "
    "signals of plants]",
)
@click.option("--messages", metavar="PORT", help="Write all messages of PORT instead of signals.")
@click.option("--from", "first", default="0", show_default=True, metavar="T", help="First time, s.")
@click.option("--to", "last", metavar="T", help="Last time, s.  [default: the end]")
@click.option("--rate", type=float, metavar="HZ", help="Rows per second.  [default: recorded rows]")
@click.option(
    "--side",
    type=click.Choice(["plus", "minus"]),
    default="plus",
    show_default=True,
    help="The value at an instant with two: after (plus) or before (minus) its discrete changes.",
)
@click.option("--own", is_flag=True, help="Leave a value empty where its component has no row.")
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

    One row for each time, one column for each signal. Every number is written bit for bit.

    \b
    Examples:
      rtsim export runs/f16-001.mcap -o f16.parquet
      rtsim export runs/f16-001.mcap -o f16.csv -s f16.altitude -s 'autopilot.*' --rate 50
    """
    EXPORTS.get_or_raise(output.suffix.removeprefix("."), f"the suffix of {output.name}")
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


# ``rtsim messages``: list the messages of a recording with their three time stamps.

_STATUS = {0: "", 1: "lost", 2: "copy"}
_PREFIX = "messages/"
_PIECE = 1 << 20
"""Size of the piece of a topic's rows that is in memory at once, bytes."""
_ORDER = (
    "initiated", "initiated_step", "completed", "completed_step", "arrival", "arrival_step",
)  # fmt: skip
_COLUMNS = (
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
    help="Show only messages whose payload differs from that of the previous message.",
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
    """Show when each message of RECORDING was initiated, completed, and arrived (in s).

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
    print_long_table(console(), "Messages", _COLUMNS, map(_cells, rows))
    if hidden:
        click.echo(f"{hidden} more messages; increase --limit to see them")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    arrival = seconds(row["arrival"]) if row["status"] != "lost" else "never"
    payload = ", ".join(f"{k}={v:.6g}" for k, v in row["payload"].items())
    stamps = seconds(row["initiated"]), seconds(row["completed"]), arrival
    return row["topic"], str(row["sequence"]), *stamps, row["status"], payload


def message_rows(
    recording: Recording, pattern: str, inputs: bool, changes: bool
) -> list[dict[str, Any]]:
    """Return the messages whose topic matches ``pattern``, in the order of initiation.

    ``inputs`` includes the requests of controllers; ``changes`` leaves out each message whose
    payload equals that of the previous message.  Raises :class:`UnknownName` if no topic matches.
    """
    return list(FoundMessages.of(recording, pattern, inputs, changes).rows())


@dataclass(frozen=True)
class FoundMessages:
    """The messages that match a pattern, read in pieces because they may be larger than memory."""

    topics: Sequence[_Topic]

    @classmethod
    def of(cls, recording: Recording, pattern: str, inputs: bool, changes: bool) -> FoundMessages:
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
        """Give the messages ordered by the tags at which they were initiated."""
        for _, row in heapq.merge(*(t.rows() for t in self.topics), key=_by_key):
            yield row


Key: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True)
class _Topic:
    """The messages of one topic; ``shown`` is the mask of listed messages, ``None`` lists all."""

    name: str
    track: TrackData
    shown: NDArray[np.bool_] | None

    @classmethod
    def of(cls, name: str, track: TrackData, changes: bool) -> _Topic:
        return cls(name, track, _changed(track) if changes else None)

    @property
    def count(self) -> int:
        return len(self.track) if self.shown is None else int(self.shown.sum())

    def rows(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Give the messages in the order of initiation, each with its sort key.

        Messages are recorded in the order of completion.  Therefore a message is given only when no
        later piece of the file contains a message that was initiated earlier.
        """
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
        """Return, for each piece, the least sort key in the piece and in all later pieces."""
        columns = [self.track.integers.index(k) for k in (*_ORDER, "sequence")]
        out: list[Key] = []
        for piece in self.track.pieces(_PIECE):
            keys = piece.integers[:, columns]
            first = keys[np.lexsort(keys.T[::-1])[0]].tolist()
            out.append((*first[:-1], self.name, first[-1]))
        return list(itertools.accumulate(reversed(out), min))[::-1]


def _by_key(pair: tuple[Key, dict[str, Any]]) -> Key:
    return pair[0]


def _changed(track: TrackData) -> NDArray[np.bool_]:
    """Return the mask of messages whose payload differs, bit for bit, from the previous one."""
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
