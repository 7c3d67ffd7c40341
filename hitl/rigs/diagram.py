"""Draw the wiring of a rig as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from hitl.boards import parse_url
from hitl.rigs.rig import NODE, Channel, Rig, RigWire

_LINE, _GAP = 30, 14
"""Height of a signal's lines, and gap between pins, pixels."""
_TOP = 66
_BOX = 150
_LEFT, _NODE_X, _DEVICE_X = 16, 330, 720
_WIDTH = _DEVICE_X + _BOX + 24
_KINDS = {
    "digital_out": "digital out", "digital_in": "digital in", "adc_in": "ADC in",
    "rise": "time of the last rising edge", "fall": "time of the last falling edge",
    "width": "width of the last high pulse", "count": "number of edges",
}  # fmt: skip
_STYLE = """text{font:13px sans-serif;fill:#222}.small{font-size:11px;fill:#555}
.head{font-weight:bold}.box{fill:#eef3f8;stroke:#345}.device{fill:#f6f1e7;stroke:#653}
.wire{fill:none;stroke:#345;stroke-width:1.6}.part{fill:#fff;stroke:#345;stroke-width:1.4}"""


def svg(rig: Rig) -> str:
    """Return the wiring of a rig as SVG: signals, I/O node and devices."""
    rows, bottom = _rows(rig)
    height = bottom + 16 + 16 * len(rig.bus_devices)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}">',
        '<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#345"/>'
        f"</marker></defs><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        _text(_LEFT, 28, f"Rig {rig.name}", "head"),
        _text(_LEFT, 46, _about(rig), "small"),
        _box(_NODE_X, _TOP, bottom - _TOP, "box", "I/O node", rig.board),
    ]
    for pin, y in rows.items():
        parts += _signals(pin, y, list(rig.at(pin)))
    parts += _boxes_of_devices(rig, rows, bottom)
    rest = [f"{w.source} to {w.target}" for w in rig.wires if not _at_node(w)]
    if rest:
        parts.append(_text(_NODE_X, _TOP - 8, f"also: {', '.join(rest)}", "small"))
    for place, device in enumerate(rig.bus_devices):
        signals = ", ".join(f"{s.name} ({s.quantity})" for s in device.signals) or "no signals"
        text = f"{device.name}: {device.kind} at {device.at}, {signals}"
        parts.append(_text(_LEFT, bottom + 18 + 16 * place, text, "small"))
    return "\n".join([*parts, "</svg>", ""])


def _rows(rig: Rig) -> tuple[dict[str, int], int]:
    rows, y = {}, _TOP + 40
    for pin in dict.fromkeys(c.pin for c in rig.channels):
        high = _LINE * len(list(rig.at(pin)))
        rows[pin] = y + high // 2
        y += high + _GAP
    return rows, y


def _about(rig: Rig) -> str:
    text = f"{rig.baud} baud; safe values after {rig.watchdog_ms} ms of silence"
    if parse_url(rig.board).emulated:
        text += f"; emulated in slices of {rig.slice_ns / 1000:g} us, the delay of a wire"
    return text


def _signals(pin: str, y: int, channels: list[Channel]) -> Iterable[str]:
    top = y - _LINE * len(channels) // 2
    for k, channel in enumerate(channels):
        unit = channel.field.signal.unit
        name = channel.name if unit == "1" else f"{channel.name} [{unit}]"
        yield _text(_LEFT, top + _LINE * k + 13, name)
        yield _text(_LEFT, top + _LINE * k + 25, _kind(channel), "small")
    outwards = channels[0].kind in ("digital_out", "pwm_out")
    ends = 'marker-end="url(#to)"' if outwards else 'marker-start="url(#to)"'
    yield f'<path class="wire" d="M{_NODE_X - 60} {y}H{_NODE_X}" {ends}/>'
    yield _text(_NODE_X + 8, y + 4, pin)


def _kind(channel: Channel) -> str:
    place = channel.field
    text = _KINDS.get(channel.measure or channel.kind, "")
    if channel.kind == "pwm_out":
        text = f"PWM out, {255 * place.scale + place.bias:g} at duty 1"
    if channel.kind in ("digital_out", "pwm_out"):
        safe = channel.safe * place.scale + place.bias
        text += f", safe {safe:g}"
    return text + (", pull-up" if channel.pull_up else "")


def _boxes_of_devices(rig: Rig, rows: dict[str, int], bottom: int) -> Iterable[str]:
    y = bottom
    for device in rig.devices:
        wires = [w for w in rig.wires if device.name in (w.source.board, w.target.board)]
        at = [rows[_at_node(w)] for w in wires if _at_node(w) in rows]
        top = min(at, default=y) - 40
        y = max(at, default=y) + 24
        yield _box(_DEVICE_X, top, y - top, "device", device.name, device.firmware.name)
        for wire in wires:
            if _at_node(wire) in rows:
                yield from _wire(wire, rows[_at_node(wire)])


def _at_node(wire: RigWire) -> str:
    return next((e.pin for e in (wire.source, wire.target) if e.board == NODE), "")


def _wire(wire: RigWire, y: int) -> Iterable[str]:
    outwards = wire.source.board == NODE
    ends = 'marker-end="url(#to)"' if outwards else 'marker-start="url(#to)"'
    start, end = _NODE_X + _BOX, _DEVICE_X
    pin = (wire.target if outwards else wire.source).pin
    yield f'<path class="wire" d="M{start} {y}H{end}" {ends}/>'
    yield _text(end + 8, y + 4, pin)
    if wire.low_pass is not None:
        yield from _low_pass(wire, (start + end) // 2, y)


def _low_pass(wire: RigWire, x: int, y: int) -> Iterable[str]:
    part = wire.low_pass
    assert part is not None
    yield f'<rect class="part" x="{x - 48}" y="{y - 7}" width="40" height="14"/>'
    yield (
        f'<path class="wire" d="M{x + 26} {y}v9m-11 0h22m-22 5h22m-11 0v6m-8 0h16m-12 3h8"/>'
        f'<circle cx="{x + 26}" cy="{y}" r="2.5" fill="#345"/>'
    )
    text = f"{_engineering(part.resistance)}Ω, {_engineering(part.capacitance)}F"
    yield _text(x - 60, y - 14, f"{text}: RC = {1000 * part.time_constant:g} ms", "small")


def _engineering(value: float) -> str:
    for scale, prefix in ((1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if value >= scale:
            return f"{value / scale:g} {prefix}"
    return f"{value * 1e12:g} p"


def _box(x: int, y: int, height: int, kind: str, name: str, below: str) -> str:
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{_BOX}" height="{height}" rx="5"/>'
        + _text(x + 8, y + 16, name, "head")
        + _text(x + 8, y + 29, below[:24], "small")
    )


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'
