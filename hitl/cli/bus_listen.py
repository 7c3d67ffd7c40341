"""``rtsim bus listen``: print the frames that arrive on a link, decoded."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from hitl.buses.traffic import Layout, Traffic
from hitl.buses.urls import open_frame_link, parse_frame_url
from rtsim.cli.common import NO, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.components.frames import FrameError, read_frames
from rtsim.components.frames.contract import hexadecimal
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S

_LOOK_S = 0.1


@click.command()
@click.argument("url")
@click.option("--count", type=click.IntRange(min=1), default=None, help="End after so many frames.")
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0.0, min_open=True), default=None,
    metavar="S", help="End after so many s.  [default: until interrupted]",
)  # fmt: skip
@json_option
@reports_errors
def listen(url: str, count: int | None, seconds: float | None, as_json: bool) -> None:
    """Print the frames that arrive at URL, with their signals.

    URL is that of a link, such as can://socketcan/can0?dbc=car.dbc or
    udp://127.0.0.1:5005?bind=127.0.0.1:5006&frames=nodes.toml. Without a file of frames the
    command prints bytes. Exit status 0 if all frames were well-formed, 1 if one was malformed, 2 if
    the link cannot be opened.

    \b
    Examples:
      rtsim bus listen 'can://socketcan/can0?dbc=car.dbc' --for 10
      rtsim bus listen 'udp://127.0.0.1:9?bind=127.0.0.1:5006' --count 1 --json
    """
    if as_json and count is None and seconds is None:
        raise ScenarioError("--json prints its result at the end; give --count or --for too")
    at = parse_frame_url(url)
    codecs = list(read_frames(at.frames).values()) if at.frames else []
    rows: list[dict[str, Any]] = []
    number = 0
    with sigterm_interrupts(), closing(open_frame_link(at)) as link:
        traffic = Traffic(link, Layout.of(()), Layout.of(codecs, prefix=True))
        began = stopwatch()
        while count is None or number < count:
            passed = (stopwatch() - began) / NS_PER_S
            if seconds is not None and passed >= seconds:
                break
            row = _next(traffic, min(_LOOK_S, (seconds or passed + 1.0) - passed))
            if row is None:
                continue
            number += 1
            row["time"] = round((stopwatch() - began) / NS_PER_S, 6)
            if as_json:
                rows.append(row)
            else:
                click.echo(_line(row))
    bad = traffic.malformed_frames
    why = f"{bad} of {number} frames malformed"
    if as_json:
        told = {"url": url, "frames": rows, "malformed": traffic.malformed}
        show_result(told, NO if bad else 0, why)
    else:
        undecoded = "" if codecs else "; the URL names no file of frames, so none was decoded"
        click.echo(f"{number} frames, {bad} malformed{undecoded}")
        for reason, times in traffic.malformed.items():
            click.echo(f"malformed: {times} x {reason}")
    if bad:
        raise SystemExit(NO)


def _next(traffic: Traffic, timeout: float) -> dict[str, Any] | None:
    """Return the next frame as plain data; None if none arrives within ``timeout`` s."""
    try:
        frame = traffic.link.receive(timeout)
    except FrameError as error:
        traffic.complain(str(error))
        return {"frame": None, "malformed": str(error)}
    if frame is None:
        return None
    row: dict[str, Any] = {"data": frame.data.hex(" ")}
    if traffic.link.addressed:
        row["identifier"] = hexadecimal(frame.identifier, frame.extended)
    if not traffic.receives.codecs:
        return row
    before = dict(traffic.malformed)
    name = traffic.take(frame)
    row["frame"] = name or None
    if name:
        row["signals"] = _signals(traffic, name)
    elif traffic.malformed != before:
        row["malformed"] = next(
            r for r, times in traffic.malformed.items() if before.get(r, 0) != times
        )
    return row


def _signals(traffic: Traffic, name: str) -> dict[str, float]:
    layout = traffic.receives
    k = [codec.name for codec in layout.codecs].index(name)
    columns = layout.codecs[k].signals.columns
    return dict(zip(columns, traffic.values[layout.places[k]].tolist(), strict=True))


def _line(row: dict[str, Any]) -> str:
    told = [f"{row['time']:.3f}", row.get("identifier", ""), row.get("frame") or ""]
    told += [f"{n}={v:.10g}" for n, v in row.get("signals", {}).items()]
    if not row.get("signals"):
        told.append(row.get("data", ""))
    if "malformed" in row:
        told.append(f"MALFORMED: {row['malformed']}")
    return " ".join(word for word in told if word)
