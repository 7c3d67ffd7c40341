"""The commands ``rtsim bus check``, ``load`` and ``listen``."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from hitl.buses.traffic import Layout, Traffic
from hitl.buses.urls import open_frame_link, parse_frame_url
from rtsim.cli.common import NO, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import option, parse_settings, scenario_names
from rtsim.cli.terminal import Column, console, print_table
from rtsim.components.can_bus import (
    INTERMISSION,
    MOST_BYTES,
    CanBus,
    PeriodicFrame,
    worst_latencies,
)
from rtsim.components.frames import FrameCodec, FrameError, read_frames
from rtsim.components.frames.contract import EXACT_BITS, RawType, hexadecimal
from rtsim.components.medium import LoadedMedium, SenderLoad
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.schedules.messages import loads_of

_FRAMES = (
    Column("frame"), Column("identifier"), Column("bytes", number=True),
    Column("most bits", number=True), Column("period (ms)", number=True),
    Column("load (%)", number=True), Column("worst latency (ms)", number=True),
)  # fmt: skip
_SIGNALS = (
    Column("signal"), Column("unit"), Column("from", number=True), Column("to", number=True),
    Column("step", number=True), Column("initial", number=True, drop=1),
)  # fmt: skip


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--bitrate", type=click.IntRange(1_000, 1_000_000), default=500_000, show_default=True,
    help="Bit rate of the CAN bus, bit/s.",
)  # fmt: skip
@json_option
@reports_errors
def check(file: Path, bitrate: int, as_json: bool) -> None:
    """Check a file of frames (DBC or TOML), and print its frames and signals.

    For periodic frames, the command also prints the load of the bus and the longest latency. The
    calculation assumes the largest number of stuff bits and no errors. Exit status: 0 if FILE is
    valid, 1 if the bus cannot carry the load, 2 if FILE is invalid.

    \b
    Examples:
      rtsim bus check car.dbc --bitrate 500000
      rtsim bus check nodes.toml --json
    """
    bus = CanBus(bitrate, "can")
    codecs = read_frames(file)
    frames = [_frame(codec, bus) for codec in codecs.values()]
    periodic = [one for one in (_periodic(c, bus) for c in codecs.values()) if one is not None]
    latencies = worst_latencies(periodic)
    for row in frames:
        row["worst_latency_ns"] = latencies.get(row["name"])
    load = sum(one.load for one in periodic) if periodic else None
    why = (
        f"a bus with {bitrate} bit/s cannot carry the load of the longest frames"
        if load and load >= 1.0
        else None
    )
    notes = [note for codec in codecs.values() for note in _notes(codec)]
    if as_json:
        report = {"file": str(file), "bitrate": bitrate, "frames": frames, "load": load,
                "notes": notes}  # fmt: skip
        show_result(report, NO if why else 0, why)
    else:
        _print(file, bitrate, frames, notes, load)
        if why:
            click.echo(f"FAILED: {why}; use a higher bit rate, or longer periods")
    if why:
        raise SystemExit(NO)


def _print(
    file: Path, bitrate: int, frames: list[dict[str, Any]], notes: list[str], load: float | None
) -> None:
    out = console()
    print_table(out, f"Frames of {file}", _FRAMES, [_cells(row) for row in frames])
    for row in frames:
        rows = [_signal_cells(signal) for signal in row["signals"]]
        print_table(out, f"Signals of {row['name']}", _SIGNALS, rows)
    for note in notes:
        click.echo(f"note: {note}")
    without = [row["name"] for row in frames if row["period_ns"] is None and row["most_bits"]]
    if load is None:
        return
    click.echo(
        f"load of a bus with {bitrate} bit/s: at most {100 * load:.1f} %"
        + (f", without {', '.join(without)}, which have no period" if without else "")
    )


def _periodic(codec: FrameCodec, bus: CanBus) -> PeriodicFrame | None:
    if not codec.period_ns or codec.length > MOST_BYTES:
        return None
    return PeriodicFrame(codec.name, bus.frame(codec), codec.period_ns)


def _frame(codec: FrameCodec, bus: CanBus) -> dict[str, Any]:
    fits = codec.length <= MOST_BYTES
    found = _periodic(codec, bus)
    return {
        "name": codec.name,
        "identifier": codec.identifier,
        "extended": codec.extended,
        "bytes": codec.length,
        "most_bits": bus.frame(codec).worst_bits + INTERMISSION if fits else None,
        "period_ns": codec.period_ns or None,
        "load": None if found is None else found.load,
        "signals": [
            _signal(signal, raw)
            for signal, raw in zip(codec.signals, _raw_types(codec), strict=False)
        ],
    }


def _raw_types(codec: FrameCodec) -> tuple[RawType | None, ...]:
    found: tuple[RawType | None, ...] = getattr(codec, "raw_types", (None,) * len(codec.signals))
    return found


def _signal(signal: Any, raw: RawType | None) -> dict[str, Any]:
    low, high = (None, None) if raw is None else raw.limits
    return {
        "name": signal.name, "unit": signal.unit, "low": low, "high": high,
        "step": None if raw is None or raw.float_bits else abs(raw.scale),
        "initial": signal.initial,
    }  # fmt: skip


def _notes(codec: FrameCodec) -> list[str]:
    out = []
    if codec.length > MOST_BYTES:
        out.append(
            f"{codec.name} has {codec.length} bytes and fits into no classical CAN frame; it can "
            "be a datagram"
        )
    for raw in _raw_types(codec):
        if raw is not None and raw.high - raw.low >= 1 << EXACT_BITS:
            out.append(f"{raw.name} has more than {EXACT_BITS} bits; its last bits are rounded")
    return out


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    latency = row["worst_latency_ns"]
    return (
        row["name"],
        hexadecimal(row["identifier"], row["extended"]),
        str(row["bytes"]),
        "" if row["most_bits"] is None else str(row["most_bits"]),
        "" if row["period_ns"] is None else f"{row['period_ns'] / 1e6:g}",
        "" if row["load"] is None else f"{100 * row['load']:.2f}",
        milliseconds(latency) if row["period_ns"] else "",
    )


def milliseconds(ns: int | None) -> str:
    return "no limit" if ns is None else f"{ns * 1000 / NS_PER_S:.3f}"


def _signal_cells(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = ("low", "high", "step", "initial")
    texts = ["" if row[n] is None else _number(row[n]) for n in numbers]
    return row["name"], row["unit"], *texts


def _number(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


# ``rtsim bus load`` reports which components use the media of a scenario, and how much.

_COLUMNS = (
    Column("sender"), Column("frame"), Column("link", drop=1), Column("most bits", number=True),
    Column("period (ms)", number=True), Column("load (%)", number=True),
    Column("worst latency (ms)", number=True),
)  # fmt: skip


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@option("--set")
@json_option
@reports_errors
def load(scenario: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Print the load of each bus and network of SCENARIO, and the longest latency of each frame.

    The calculation assumes the longest frames, no errors, no repetitions, and senders with a fixed
    period. The column for the longest latency is empty if rtsim has no analysis for the medium.
    Exit status 0 if every medium can carry its load, 1 if a medium cannot, 2 if SCENARIO has no
    medium.

    \b
    Examples:
      rtsim bus load car.py
      rtsim bus load car.py --set bitrate=250000
    """
    from rtsim.scenario.loading import load_scenario

    media, notes = loads_of(load_scenario(scenario, parse_settings(settings)))
    if not media and not notes:
        raise ScenarioError(
            f"{scenario} has no bus and no network; give components a transport such as "
            "CanBus(...).frame(...)"
        )
    report = {one.name: _medium(one, rows) for one, rows in media}
    over = [name for name, one in report.items() if one["load"] >= 1.0]
    why = f"{', '.join(over)} cannot carry the load" if over else None
    if as_json:
        result = {"buses": report, "without_period": [n for n, _ in notes]}
        show_result(result, NO if over else 0, why)
    else:
        for one, rows in media:
            several = len({row.line for row in rows}) > 1
            columns = [c for c in _COLUMNS if several or c.name != "link"]
            cells = [_load_cells(row, several) for row in rows]
            line, most = _busiest(rows)
            title = f"{one.kind} {one.name}, {one.bitrate} bit/s: load at most {100 * most:.1f} %"
            print_table(console(), title + (f" ({line})" if several else ""), columns, cells)
        for sender, why_not in notes:
            click.echo(f"note: {sender} {why_not}, so its load is not included")
        if why:
            click.echo(f"FAILED: {why}; give the bus a higher bit rate, or longer periods")
    if over:
        raise SystemExit(NO)


def _busiest(rows: list[SenderLoad]) -> tuple[str, float]:
    lines: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        lines[row.line] += row.load
    return max(lines.items(), key=lambda one: one[1], default=("", 0.0))


def _medium(medium: LoadedMedium, rows: list[SenderLoad]) -> dict[str, Any]:
    frames = [
        {
            "sender": row.sender, "frame": row.frame, "line": row.line, "most_bits": row.bits,
            "period_ns": row.period_ns, "load": row.load,
            "worst_latency_ns": row.worst_latency_ns,
        }
        for row in rows
    ]  # fmt: skip
    return {"bitrate": medium.bitrate, "load": _busiest(rows)[1], "frames": frames}


def _load_cells(row: SenderLoad, several: bool) -> tuple[str, ...]:
    return (
        row.sender, row.frame, *((row.line,) if several else ()), str(row.bits),
        f"{row.period_ns / 1e6:g}", f"{100 * row.load:.2f}",
        milliseconds(row.worst_latency_ns) if row.analysed else "",
    )  # fmt: skip


# ``rtsim bus listen`` prints the frames that arrive on a link, decoded.

_LOOK_S = 0.1


@click.command()
@click.argument("url")
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=None,
    help="Number of frames after which the command ends.",
)
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0.0, min_open=True), default=None,
    metavar="S", help="Time after which the command ends, s.  [default: until interrupted]",
)  # fmt: skip
@json_option
@reports_errors
def listen(url: str, count: int | None, seconds: float | None, as_json: bool) -> None:
    """Print the frames that arrive at URL, with their signals.

    URL is that of a link, such as can://socketcan/can0?dbc=car.dbc or
    udp://127.0.0.1:5005?bind=127.0.0.1:5006&frames=nodes.toml. Without a file of frames in URL, the
    command prints bytes. Exit status: 0 if all frames were valid, 1 if a frame was malformed, 2 if
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
        traffic = Traffic(link, Layout.of(codecs, prefix=True))
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
        report = {"url": url, "frames": rows, "malformed": traffic.malformed}
        show_result(report, NO if bad else 0, why)
    else:
        undecoded = "" if codecs else "; the URL names no file of frames, so none was decoded"
        click.echo(f"{number} frames, {bad} malformed{undecoded}")
        for reason, times in traffic.malformed.items():
            click.echo(f"malformed: {times} x {reason}")
    if bad:
        raise SystemExit(NO)


def _next(traffic: Traffic, timeout: float) -> dict[str, Any] | None:
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
    words = [f"{row['time']:.3f}", row.get("identifier", ""), row.get("frame") or ""]
    words += [f"{n}={v:.10g}" for n, v in row.get("signals", {}).items()]
    if not row.get("signals"):
        words.append(row.get("data", ""))
    if "malformed" in row:
        words.append(f"MALFORMED: {row['malformed']}")
    return " ".join(word for word in words if word)
