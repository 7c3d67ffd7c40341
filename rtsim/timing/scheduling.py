"""Ask the operating system for what a real-time loop needs, and report what was granted.

A plain paced run asks for timer slack, a short time slice and a quiet garbage collector: they need
no rights, cost nothing and harm nobody.  A loop and its window, where there are two CPUs, ask for
one each.  ``SCHED_FIFO``, locked memory and always a CPU of its own are asked for only with
``--realtime``: they need rights, and a FIFO loop that is overloaded takes its
CPU from everything else, the recorder included.  On a machine with one usable CPU FIFO is therefore
refused.

Everything applies to the calling thread (memory and the collector: to the process) and is undone at
the end.  Ask before :meth:`rtsim.core.clock.WallClock.calibrate`, and start helper processes first:
children do not inherit FIFO (it is reset on fork) but they do inherit the CPU affinity.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtsim.core.errors import ScenarioError
from rtsim.timing.machine import usable_cpus
from rtsim.timing.slices import set_slice, slice_ns

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_PRIORITY = 50
DEFAULT_SLICE_NS = 100_000
"""The shortest that Linux takes."""
BESIDE_SLICE_NS = 100_000_000
"""The longest: the loop waits where what is left of the other's slice is shorter than its own."""
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_CAP_IPC_LOCK = 14
_LIMITS = "/etc/security/limits.d/rtsim.conf"
_NOT_HERE = f"not available on {sys.platform}"


@dataclass(frozen=True)
class SchedulingRequest:
    """What to ask for.  ``fifo`` is a priority 1 to 99 (0: do not ask); ``cpus`` may be empty.

    ``slice_ns``: see :mod:`rtsim.timing.slices`; 0: do not ask.
    """

    timer_slack: bool = True
    slice_ns: int = DEFAULT_SLICE_NS
    quiet_gc: bool = True
    fifo: int = 0
    lock_memory: bool = False
    cpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.fifo <= 99:
            raise ScenarioError(f"SCHED_FIFO priority {self.fifo}; expected 1 to 99, such as 50")
        if any(cpu < 0 for cpu in self.cpus):
            raise ScenarioError(f"CPUs {self.cpus}; expected numbers >= 0, such as 1")

    @classmethod
    def nothing(cls) -> SchedulingRequest:
        """For a loop that no wall clock paces."""
        return cls(timer_slack=False, slice_ns=0, quiet_gc=False)

    @classmethod
    def watched(cls) -> SchedulingRequest:
        """For a loop with a window on this machine."""
        return cls(cpus=_one_each()[0])

    @classmethod
    def beside(cls) -> SchedulingRequest:
        """For who is paced beside a loop, such as its window: a long slice, so that it hands the
        processor over whenever the loop wakes."""
        return cls(slice_ns=BESIDE_SLICE_NS)

    @classmethod
    def window(cls) -> SchedulingRequest:
        """For the process of a :meth:`watched` loop's window, before it has threads."""
        cpus = _one_each()[1]
        return cls(timer_slack=False, slice_ns=BESIDE_SLICE_NS, quiet_gc=False, cpus=cpus)

    @classmethod
    def realtime(
        cls, fifo: int = DEFAULT_PRIORITY, cpus: tuple[int, ...] = ()
    ) -> SchedulingRequest:
        """Everything (``--realtime``): by default on the last usable CPU, far from CPU 0, which
        serves most interrupts."""
        usable = usable_cpus()
        chosen = cpus or (usable[-1:] if len(usable) > 1 else ())
        return cls(fifo=fifo, lock_memory=True, cpus=chosen)


def _one_each() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of two usable CPUs, the loop's and its window's; else both are empty: any.

    Left to the system the loop also wakes where the window draws while the other CPU is free; of
    more than two one is free anyway.
    """
    usable = usable_cpus()
    two = len(usable) == 2 and hasattr(os, "sched_setaffinity")
    return (usable[1:], usable[:1]) if two else ((), ())


@dataclass(frozen=True)
class Item:
    """One thing: what was asked for, what is so now, and, where they differ, why and what to do."""

    name: str
    asked: str
    granted: str
    ok: bool
    reason: str = ""
    remedy: str = ""
    """What to type to be granted it."""


@dataclass(frozen=True)
class Granted:
    items: tuple[Item, ...]

    def __getitem__(self, name: str) -> Item:
        return next(item for item in self.items if item.name == name)

    @property
    def refused(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if not item.ok)

    def to_json(self) -> list[dict[str, object]]:
        return [asdict(item) for item in self.items]

    def table(self, title: str = "Scheduling") -> Table:
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for column in ("", "asked", "granted", "why not", "what to type"):
            table.add_column(column, overflow="fold")
        for item in self.items:
            style = "" if item.ok else "yellow"
            table.add_row(
                item.name, item.asked, item.granted, item.reason, item.remedy, style=style
            )
        return table


@contextlib.contextmanager
def request(
    asked: SchedulingRequest | None = None, beside: Iterable[int] = ()
) -> Iterator[Granted]:
    """Ask; yields what was granted; undoes it at the end.  A refusal is a report, never an error.

    ``beside``: processes, by number, that leave the CPUs that are asked for: the recorder's.

    ::

        with request(Request.realtime()) as granted:
            clock.calibrate()
            ...
    """
    wanted = SchedulingRequest() if asked is None else asked
    with contextlib.ExitStack() as undo:
        yield Granted(
            (
                _ask("timer slack", wanted.timer_slack, "1 ns", _timer_slack, undo),
                _ask("time slice", wanted.slice_ns > 0, _us(wanted.slice_ns), _slice(wanted), undo),
                _ask("garbage collector", wanted.quiet_gc, "quiet", _quiet_gc, undo),
                _ask("memory", wanted.lock_memory, "locked", _lock_memory, undo),
                _ask("class", wanted.fifo > 0, f"SCHED_FIFO {wanted.fifo}", _fifo(wanted), undo),
                _ask(
                    "CPUs",
                    bool(wanted.cpus),
                    _cpu_text(wanted.cpus),
                    _pin(wanted.cpus, beside),
                    undo,
                ),
            )
        )


def probe() -> Granted:
    """What ``--realtime`` would be granted here, asked for and given back at once."""
    with request(SchedulingRequest.realtime()) as granted:
        return granted


class _Refused(Exception):
    """Not granted: what holds instead, why, and what to type."""

    def __init__(self, instead: str, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.instead, self.reason, self.remedy = instead, reason, remedy


_Asker = Callable[[contextlib.ExitStack], str]


def _ask(name: str, wanted: bool, text: str, ask: _Asker, undo: contextlib.ExitStack) -> Item:
    if not wanted:
        return Item(name, "no", _as_it_is(name), ok=True)
    try:
        return Item(name, text, ask(undo), ok=True)
    except _Refused as no:
        return Item(name, text, no.instead, ok=False, reason=no.reason, remedy=no.remedy)
    except (OSError, AttributeError, ValueError) as error:  # a platform we have not met
        return Item(name, text, _as_it_is(name), ok=False, reason=f"{error or _NOT_HERE}")


def _as_it_is(name: str) -> str:
    """What holds without asking."""
    if name == "timer slack":
        slack = _slack_ns()
        return "as the system has it" if slack is None else f"{slack} ns"
    if name == "time slice":
        with contextlib.suppress(OSError):
            return _us(slice_ns())
        return "as the system has it"
    if name == "garbage collector":
        return "on" if gc.isenabled() else "off"
    if name == "memory":
        return "not locked"
    if name == "CPUs":
        return _cpu_text(usable_cpus())
    return _class_name()


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _why() -> str:
    return os.strerror(ctypes.get_errno())


def _slack_ns() -> int | None:
    libc = _libc()
    slack = -1 if libc is None else int(libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0))
    return slack if slack >= 0 else None


def _timer_slack(undo: contextlib.ExitStack) -> str:
    libc, before = _libc(), _slack_ns()
    if libc is None or before is None:
        raise _Refused("as the system has it", _NOT_HERE)
    if libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0:
        raise _Refused(f"{before} ns", _why())
    undo.callback(libc.prctl, _PR_SET_TIMERSLACK, before, 0, 0, 0)
    return f"{_slack_ns()} ns"


def _us(ns: int) -> str:
    return f"{ns / 1e3:g} us" if ns else "as the system has it"


def _slice(wanted: SchedulingRequest) -> _Asker:
    def ask(undo: contextlib.ExitStack) -> str:
        before = slice_ns()
        set_slice(wanted.slice_ns)
        undo.callback(_give_back, before)
        if slice_ns() != wanted.slice_ns:
            raise _Refused(_us(slice_ns()), "Linux has it from 6.12 on")
        return _us(wanted.slice_ns)

    return ask


def _give_back(slice_before_ns: int) -> None:
    with contextlib.suppress(OSError):
        set_slice(slice_before_ns)


def _quiet_gc(undo: contextlib.ExitStack) -> str:
    if gc.isenabled():
        undo.callback(gc.enable)
    undo.callback(gc.unfreeze)
    gc.collect()
    gc.freeze()
    gc.disable()
    return "quiet"


def _lock_memory(undo: contextlib.ExitStack) -> str:
    libc = _libc()
    if libc is None:
        raise _Refused("not locked", _NOT_HERE)
    remedy = f'echo "$USER - memlock unlimited" | sudo tee -a {_LIMITS}   # then log in again'
    unlimited = _may_lock_all()
    # under a finite limit, locking what is yet to come would make later allocations fail
    flags = _MCL_CURRENT | _MCL_FUTURE if unlimited else _MCL_CURRENT
    if libc.mlockall(flags) != 0:
        raise _Refused("not locked", _why(), remedy)
    undo.callback(libc.munlockall)
    if not unlimited:
        raise _Refused("what there is now, not what comes", "limit on locked memory", remedy)
    return "locked"


def _may_lock_all() -> bool:
    import resource  # not on Windows

    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:
        return True
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    effective = next((li.split()[1] for li in status.splitlines() if li.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> _CAP_IPC_LOCK & 1)


def _pin(cpus: tuple[int, ...], beside: Iterable[int]) -> _Asker:
    def ask(undo: contextlib.ExitStack) -> str:
        if not hasattr(os, "sched_setaffinity"):
            raise _Refused("any", _NOT_HERE)
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, cpus)
        except (OSError, OverflowError) as error:
            able = _cpu_text(tuple(sorted(before)))
            raise _Refused(able, str(error), f"choose among the usable CPUs: {able}") from error
        undo.callback(os.sched_setaffinity, 0, before)
        for process in beside:
            _place(process, before.difference(cpus))
            undo.callback(_place, process, before)
        return _cpu_text(usable_cpus())

    return ask


def _place(process: int, cpus: set[int]) -> None:
    """Another process on these; where it is on none, or gone, it stays as it is."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(process, cpus)


def _fifo(wanted: SchedulingRequest) -> _Asker:
    def ask(undo: contextlib.ExitStack) -> str:
        if not hasattr(os, "sched_setscheduler"):
            raise _Refused("as the system has it", _NOT_HERE)
        if len(usable_cpus()) < 2:
            raise _Refused(_class_name(), "one CPU: an overloaded FIFO loop would starve the rest")
        before, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
        try:
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(wanted.fifo))
        except OSError as error:
            raise _Refused(
                _class_name(),
                str(error.strerror),
                f'echo "$USER - rtprio {wanted.fifo}" | sudo tee -a {_LIMITS}   # then log in '
                "again; in a container: --cap-add SYS_NICE",
            ) from error
        undo.callback(_restore_class, before, parameters)
        return _class_name()

    return ask


def _restore_class(before: int, parameters: os.sched_param) -> None:
    try:
        os.sched_setscheduler(0, before, parameters)
    except PermissionError:  # without rights, reset-on-fork cannot be taken back
        os.sched_setscheduler(0, before | os.SCHED_RESET_ON_FORK, parameters)


def _class_name() -> str:
    if not hasattr(os, "sched_getscheduler"):
        return "as the system has it"
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    names = {os.SCHED_OTHER: "SCHED_OTHER", os.SCHED_FIFO: "SCHED_FIFO", os.SCHED_RR: "SCHED_RR"}
    priority = os.sched_getparam(0).sched_priority
    return f"{names.get(policy, f'class {policy}')} {priority or ''}".strip()


def _cpu_text(cpus: tuple[int, ...]) -> str:
    return ", ".join(map(str, cpus)) or "any"
