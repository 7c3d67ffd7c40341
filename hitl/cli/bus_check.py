"""``rtsim bus check``: the frames and signals that a DBC file or a TOML file describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import NO, json_option, reports_errors, show_result
from rtsim.cli.terminal import Column, console, print_table
from rtsim.components.can_analysis import PeriodicFrame, worst_latencies
from rtsim.components.can_bus import INTERMISSION, MOST_BYTES, CanBus
from rtsim.components.frames import FrameCodec, read_frames
from rtsim.components.frames.contract import hexadecimal
from rtsim.components.frames.raw import EXACT_BITS, RawType
from rtsim.core.tag import NS_PER_S

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
    """Check FILE, a DBC file or a TOML file of frames, and print its frames and signals.

    For frames that have a period, the command prints the load of the bus and the longest latency,
    with the most stuff bits, without error frames, and if no other frames use the bus. Exit status
    0 if FILE can be used, 1 if the bus cannot carry the load, 2 if FILE cannot be used.

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
        told = {"file": str(file), "bitrate": bitrate, "frames": frames, "load": load,
                "notes": notes}  # fmt: skip
        show_result(told, NO if why else 0, why)
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
    """Return the raw type of each signal; None for a codec of another package."""
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
    """Return what a user of the frame should know."""
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
    """Return a latency in ms; "no limit" if there is none."""
    return "no limit" if ns is None else f"{ns * 1000 / NS_PER_S:.3f}"


def _signal_cells(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = ("low", "high", "step", "initial")
    told = ["" if row[n] is None else _number(row[n]) for n in numbers]
    return row["name"], row["unit"], *told


def _number(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)
