"""The timing certificate: a report on a run's timing, machine and scheduling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rtsim.core.errors import RecordingError
from rtsim.timing.frames import WorstFrame
from rtsim.timing.pacing import Pacer
from rtsim.timing.scheduling import Granted, Item, Machine, examine_machine
from rtsim.timing.statistics import Summary

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@dataclass(frozen=True)
class Certificate:
    """Report on the timing of a run, from measured times.

    Times are wall-clock ns; only ``tag_ns`` is simulated time. ``lateness`` is the wake-up latency,
    and ``compute`` the computing time of a frame. ``margin`` is the time that a frame could have
    taken longer without an overrun. ``not_waited`` is the number of frames that began without a
    wait. For a run as fast as possible, ``rate`` is ``max``, and lateness and margin are empty.
    ``scheduling`` is empty if no scheduling was requested.
    """

    machine: Machine
    scheduling: tuple[Item, ...]
    rate: str
    policy: str
    spin_ns: int | None
    tolerance_ns: int
    frames: int
    not_waited: int
    lateness: Summary
    compute: Summary
    margin: Summary
    overruns: dict[str, int]
    slipped_ns: int
    worst: tuple[WorstFrame, ...]
    holds: int = 0
    held_ns: int = 0
    """Total duration of commanded pauses, ns; ``holds`` is the number of pauses. A pause is not an
    overrun.
    """
    blamed: dict[str, int] = field(default_factory=dict)
    """Number of overruns caused by ``compute``, for each responsible job."""
    in_line: int | None = None
    """Number of overruns caused by ``wake`` in which the loop mostly waited for a CPU.

    ``None`` if ``wake`` caused no overrun, or if the system does not report how long threads wait.
    """
    injected: dict[str, int] = field(default_factory=dict)
    period_ns: int = 0
    """Shortest declared period of the loop, simulated ns; 0 without a declared period."""
    engine: str = ""
    """Text about the compiled engine: the components that it executed, or why it was not used."""
    unrecorded: str = ""
    """Time at which recording failed, with the reason; empty if the whole run was recorded."""

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as plain data without NaN.

        Statistics with too few samples are ``None``.
        """
        parts = dict(vars(self))  # dataclasses.asdict would take a millisecond
        for name in ("machine", "lateness", "compute", "margin"):
            parts[name] = dict(vars(parts[name]))
        for name in ("scheduling", "worst"):
            parts[name] = tuple(dict(vars(one)) for one in parts[name])
        return parts

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Certificate:
        """Return the certificate from the data of ``to_json``.

        Raises :class:`RecordingError` for other data.
        """
        try:
            parts = dict(data)
            parts["machine"] = Machine(**parts["machine"])
            parts["scheduling"] = tuple(Item(**item) for item in parts["scheduling"])
            parts["worst"] = tuple(WorstFrame(**frame) for frame in parts["worst"])
            for name in ("lateness", "compute", "margin"):
                values = dict(parts[name])
                values["histogram"] = tuple((a, b, n) for a, b, n in values["histogram"])
                parts[name] = Summary(**values)
            return cls(**parts)
        except (TypeError, KeyError, ValueError) as error:
            raise RecordingError(
                f"this is not a timing certificate ({error}); expected the output of "
                "Certificate.to_json of this version of rtsim"
            ) from error

    def table(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        return Group(
            Text("Timing certificate", style="bold"),
            Text(self._context()),
            self._distribution(),
            Text(self._verdict(), style="" if self.kept_time else "yellow"),
            *([Text(f"engine      {self.engine}")] if self.engine else []),
            *([Text(f"NOT RECORDED {self.unrecorded}", style="red")] if self.unrecorded else []),
            *([_worst_table(self.worst)] if self.worst else []),
        )

    @property
    def paced(self) -> bool:
        """Return whether a part of the run was in real time."""
        return self.rate != "max" or self.lateness.count > 0

    @property
    def kept_time(self) -> bool:
        return not any(self.overruns.values())

    def _context(self) -> str:
        m = self.machine
        granted = ", ".join(f"{item.name}: {item.granted}" for item in self.scheduling)
        refused = [f"{i.name} {i.asked} ({i.reason})" for i in self.scheduling if not i.ok]
        lines = [
            f"{m.processor}, {m.cpus} CPUs{', virtual' if m.virtual else ''}; "
            f"{m.system} {m.kernel}, {m.preemption}; {m.python}",
            f"scheduling  {granted or 'nothing was requested'}",
        ]
        if refused:
            lines.append(f"refused     {'; '.join(refused)}")
        spin = "" if self.spin_ns is None else f", busy-wait up to {show_ns(self.spin_ns)}"
        period = f", period {show_ns(self.period_ns)}" if self.period_ns else ""
        lines.append(
            f"rate {self.rate}{period}, overruns: {self.policy}, "
            f"beyond {show_ns(self.tolerance_ns)}{spin}"
        )
        return "\n".join(lines)

    def _distribution(self) -> Table:
        from rich.table import Table

        # the table must fit into 60 columns without cutting off labels
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("", no_wrap=True)
        for heading in ("best", "median", "p99", "p99.9", "worst", "frames"):
            table.add_column(heading, justify="right", no_wrap=True)
        for label, s in (("lateness", self.lateness), ("compute", self.compute)):
            shown = map(show_ns, (s.min, s.median, s.p99, s.p99_9, s.max))
            table.add_row(label, *shown, str(s.count))
        s = self.margin
        shown = map(show_ns, (s.max, s.median, s.p1, s.p0_1, s.min))
        table.add_row("margin", *shown, str(s.count))
        if 0 < self.frames < 1000:
            table.caption = "n/a: too few frames (p99 needs 100, p99.9 needs 1000)"
        return table

    def _verdict(self) -> str:
        causes = ", ".join(
            f"{count} by {cause}{_jobs(self.blamed) if cause == 'compute' else self._line()}"
            for cause, count in self.overruns.items()
        )
        slipped = f"; {show_ns(self.slipped_ns)} slipped" if self.slipped_ns else ""
        held = f"; paused {self.holds} times, {show_ns(self.held_ns)}" if self.holds else ""
        taken = ", ".join(f"{name} {show_ns(ns)}" for name, ns in self.injected.items())
        faults = f"; time of faults: {taken}" if taken else ""
        return (
            f"{self.frames} frames, {sum(self.overruns.values())} overruns ({causes}){slipped}; "
            f"{self.not_waited} began without waiting{held}{faults}"
        )

    def _line(self) -> str:
        return "" if self.in_line is None else f": {self.in_line} while others used the CPU"


def certify(
    pacer: Pacer, granted: Granted | None = None, machine: Machine | None = None
) -> Certificate:
    """Return the timing certificate of a run.

    To include the last frame, stop ``pacer`` first. ``machine`` describes this machine, if known.
    """
    log, clock = pacer.log, pacer.clock
    log.count()
    rate = getattr(clock, "rate", None)
    return Certificate(
        machine=machine or examine_machine(),
        scheduling=() if granted is None else granted.items,
        rate="max" if not clock.paced else str(rate) if rate is not None else "not stated",
        policy=str(pacer.policy),
        spin_ns=getattr(clock, "most_spin_ns", None),
        tolerance_ns=pacer.tolerance_ns,
        period_ns=pacer.frame_ns,
        frames=log.frames,
        not_waited=max(0, log.frames - log.lateness.count) if clock.paced else 0,
        lateness=log.lateness.summary(),
        compute=log.compute.summary(),
        margin=log.margin.summary(),
        overruns={str(cause): count for cause, count in pacer.overruns.items()},
        slipped_ns=pacer.slipped_ns,
        worst=tuple(log.worst),
        holds=pacer.holds,
        held_ns=pacer.held_ns,
        blamed=dict(pacer.blamed),
        in_line=pacer.ledger.in_line,
        injected=dict(pacer.injected),
    )


def show_ns(ns: int | None) -> str:
    """Return a duration as text, such as ``12.3 us``; ``n/a`` if ``ns`` is None."""
    if ns is None:
        return "n/a"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def _jobs(blamed: dict[str, int]) -> str:
    most = sorted(blamed.items(), key=lambda entry: -entry[1])[:3]
    return f": {', '.join(f'{job} {count}' for job, count in most)}" if most else ""


def _worst_table(frames: tuple[WorstFrame, ...]) -> Table:
    from rich.table import Table

    table = Table(title="Worst frames", title_justify="left")
    for heading in ("at", "late", "compute", "jobs"):
        table.add_column(heading, justify="left" if heading == "jobs" else "right")
    for frame in frames:
        table.add_row(
            f"{frame.tag_ns / 1e9:.6f} s",
            show_ns(frame.late_ns),
            show_ns(frame.compute_ns),
            ", ".join(f"{name} {show_ns(ns)}" for name, ns in frame.shares),
        )
    return table
