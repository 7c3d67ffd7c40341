"""``rtsim messages``: the table of messages with their three stamps."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import console, json_option, reports_errors, seconds, show_json, table
from rtsim.errors import UnknownName
from rtsim.record.reading import Recording

_STATUS = {0: "", 1: "lost", 2: "copy"}
_PREFIX = "messages/"


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
    rows = message_rows(Recording.open(recording), topic, inputs, changes)
    hidden = max(0, len(rows) - limit) if limit else 0
    rows = rows[: limit or None]
    if as_json:
        show_json({"messages": rows, "hidden": hidden})
        return
    names = ("topic", "seq", "initiated (s)", "completed (s)", "arrival (s)", "", "payload")
    shown = table("Messages", names[0], *(f">{n}" for n in names[1:5]), *names[5:])
    for row in rows:
        stamps = [seconds(row[k]) for k in ("initiated", "completed")]
        arrival = seconds(row["arrival"]) if row["status"] != "lost" else "never"
        payload = ", ".join(f"{k}={v:.6g}" for k, v in row["payload"].items())
        shown.add_row(row["topic"], str(row["sequence"]), *stamps, arrival, row["status"], payload)
    console().print(shown)
    if hidden:
        console().print(f"{hidden} more; raise --limit")


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
