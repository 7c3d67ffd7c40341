"""``rtsim messages``: the table of messages with their three stamps."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, seconds, show_json
from rtsim.cli.recordings import say_cut_off
from rtsim.cli.tables import Column, console, print_table
from rtsim.errors import ScenarioError, UnknownName
from rtsim.record.reading import Recording

_STATUS = {0: "", 1: "lost", 2: "copy"}
_PREFIX = "messages/"
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
@click.option("--topic", default="*", help="Only topics that match, such as 'valve*'.")
@click.option("--inputs", is_flag=True, help="Also what each controller sampled.")
@click.option("--changes", is_flag=True, help="Only messages that say something new.")
@click.option("--limit", default=0, help="At most so many rows; 0 is all.")
@json_option
@reports_errors
def messages(
    recording: Path, topic: str, inputs: bool, changes: bool, limit: int, as_json: bool
) -> None:
    """Show when each message of RECORDING was initiated, completed, and arrived (in s)."""
    if limit < 0:
        raise ScenarioError(f"--limit {limit}; give a whole number >= 0, 0 for all rows")
    recorded = Recording.open(recording)
    rows = message_rows(recorded, topic, inputs, changes)
    hidden = max(0, len(rows) - limit) if limit else 0
    rows = rows[: limit or None]
    if as_json:
        show_json({"messages": rows, "hidden": hidden, "truncated": recorded.truncated})
        return
    say_cut_off(recorded)
    print_table(console(), "Messages", _COLUMNS, [_cells(row) for row in rows])
    if hidden:
        console().print(f"{hidden} more; raise --limit")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    arrival = seconds(row["arrival"]) if row["status"] != "lost" else "never"
    payload = ", ".join(f"{k}={v:.6g}" for k, v in row["payload"].items())
    stamps = seconds(row["initiated"]), seconds(row["completed"]), arrival
    return row["topic"], str(row["sequence"]), *stamps, row["status"], payload


def message_rows(
    recording: Recording, pattern: str, inputs: bool, changes: bool
) -> list[dict[str, Any]]:
    """Every message that matches, by the tag at which it was initiated."""
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    topics = [n.removeprefix(_PREFIX) for n in recording.tracks if n.startswith(_PREFIX)]
    chosen = [t for t in topics if fnmatch(t, pattern) and (inputs or not t.endswith(".inputs"))]
    if not chosen:
        raise UnknownName("topic", pattern, topics, str(recording.source))
    for name in chosen:
        track = recording.track(_PREFIX + name)
        columns = {c: track.integer(c) for c in track.integers}
        values = track.rows.floats
        before: bytes | None = None
        for i in range(len(track)):
            content = values[i].tobytes()
            is_new, before = content != before, content
            if changes and not is_new:
                continue
            stamps = {c: int(v[i]) for c, v in columns.items()}
            row = {"topic": name, **stamps, "status": _STATUS.get(stamps["status"], "?")}
            row["payload"] = dict(zip(track.signals.columns, map(float, values[i]), strict=True))
            order = ("initiated", "completed", "arrival")
            key = (*((stamps[k], stamps[f"{k}_step"]) for k in order), name, stamps["sequence"])
            found.append((key, row))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]
