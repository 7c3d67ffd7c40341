"""Requests for the scheduling of a real-time loop, and a report on their success.

For each run in real time, rtsim requests precise timers and a short time slice, and stops the
garbage collector. These requests need no privileges and do not slow other processes. On a machine
with two usable CPUs, rtsim also requests one CPU for the loop and one for its window.

With ``--realtime``, rtsim requests ``SCHED_FIFO``, locked memory and a separate CPU. FIFO and
locked memory need privileges. An overloaded FIFO loop stops all other processes on its CPU, so
rtsim does not use FIFO with only one CPU.

Requests for scheduling and CPUs are valid for the calling thread. Requests for locked memory and
the garbage collector are valid for the whole process. All requests are undone at the end. Make
requests before :meth:`rtsim.core.clock.WallClock.calibrate`. Other processes must start first,
because child processes inherit the CPU. FIFO is not inherited.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rtsim.core.errors import ScenarioError
from rtsim.core.raised import held_back

if TYPE_CHECKING:
    from rich.table import Table


# Time slices of Linux's fair scheduler. A time slice limits how long a thread runs without
# interruption.

_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""System call numbers of sched_setattr and sched_getattr, which the C library does not wrap."""


class Attributes(ctypes.Structure):
    """The first version of ``struct sched_attr``."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def slice_ns() -> int:
    """Return the time slice of the calling thread (ns); 0 means the default.

    The result is also 0 on Linux before version 6.12. Raises :class:`OSError` if the system has no
    time slices.
    """
    return int(_attributes().runtime)


def set_slice(ns: int) -> None:
    """Request time slices of ``ns`` ns; 0 means the default.

    Linux accepts 100 us to 100 ms unchanged. Raises :class:`OSError` if the system or the thread's
    scheduling class has no time slices.
    """
    libc, (number, _) = _here()
    attributes = _attributes()
    if attributes.policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        raise OSError(
            "this thread has no time slices, because its scheduling class is not SCHED_OTHER or "
            "SCHED_BATCH"
        )
    attributes.runtime = ns
    if libc.syscall(number, 0, ctypes.byref(attributes), 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _attributes() -> Attributes:
    libc, (_, number) = _here()
    found = Attributes()
    if libc.syscall(number, 0, ctypes.byref(found), ctypes.sizeof(found), 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _here() -> tuple[ctypes.CDLL, tuple[int, int]]:
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        raise OSError(f"not available on {sys.platform} {platform.machine()}")
    return ctypes.CDLL(None, use_errno=True), calls


# Description of the machine, for timing figures: processor, kernel, CPUs.

UNKNOWN = "unknown"
_MOST = 65_536  # bytes of a /proc file that are read


@dataclass(frozen=True)
class Machine:
    """Description of a machine, without host name and user name."""

    system: str
    kernel: str
    preemption: str
    processor: str
    cpus: int
    cpus_usable: int
    governor: str
    clock_source: str
    virtual: bool | None
    python: str


def examine_machine(root: Path = Path("/")) -> Machine:
    """Return a description of this machine. ``root`` is the folder that contains /proc and /sys."""
    cpu = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    source = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    fields = _cpu_fields(root / "proc/cpuinfo")
    flags = fields.get("flags", "").split()
    return Machine(
        system=platform.system() or UNKNOWN,
        kernel=platform.release() or UNKNOWN,
        preemption=_preemption(platform.version()),
        processor=fields.get("model name") or platform.processor() or platform.machine() or UNKNOWN,
        cpus=os.cpu_count() or 1,
        cpus_usable=len(usable_cpus()),
        governor=_read(cpu).strip() or UNKNOWN,
        clock_source=_read(source).strip() or UNKNOWN,
        virtual="hypervisor" in flags if flags else None,
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )


def usable_cpus() -> tuple[int, ...]:
    """Return the CPUs that this thread may use, in ascending order."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _read(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY)  # takes a tenth of the time of Path.open
    except OSError:
        return ""
    try:
        return os.read(file, _MOST).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(file)


@cache
def _cpu_fields(path: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in _read(path).split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def _preemption(version: str) -> str:
    return next((word for word in version.split() if word.startswith("PREEMPT")), "none stated")


DEFAULT_PRIORITY = 50
DEFAULT_SLICE_NS = 100_000
"""Shortest time slice that Linux accepts, ns."""
BESIDE_SLICE_NS = 100_000_000
"""Longest time slice that Linux accepts, ns.

A loop that wakes takes the CPU from a thread if the rest of the thread's slice is longer than the
slice of the loop.
"""
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_CAP_IPC_LOCK = 14
_LIMITS = "/etc/security/limits.d/rtsim.conf"
_NOT_HERE = f"not available on {sys.platform}"


@dataclass(frozen=True)
class SchedulingRequest:
    """The scheduling to request.

    ``fifo`` is a priority from 1 to 99, or 0 for no FIFO. ``slice_ns`` is the time slice (see
    :func:`set_slice`), or 0 for the default. ``cpus`` contains CPU numbers; empty means any CPU.
    """

    timer_slack: bool = True
    slice_ns: int = DEFAULT_SLICE_NS
    quiet_gc: bool = True
    fifo: int = 0
    lock_memory: bool = False
    cpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.fifo <= 99:
            raise ScenarioError(
                f"SCHED_FIFO priority {self.fifo} is out of range; give 1 to 99, such as 50"
            )
        if any(cpu < 0 for cpu in self.cpus):
            raise ScenarioError(
                f"the CPU numbers {self.cpus} are not valid; give whole numbers >= 0, such as 1"
            )

    @classmethod
    def nothing(cls) -> SchedulingRequest:
        return cls(timer_slack=False, slice_ns=0, quiet_gc=False)

    @classmethod
    def watched(cls) -> SchedulingRequest:
        """Return the request of a loop with a window on the same machine."""
        return cls(cpus=_one_each()[0])

    @classmethod
    def beside(cls) -> SchedulingRequest:
        """Return the request of another thread in real time, such as the thread of a window.

        The requested time slice is long, so that the loop can interrupt the thread.
        """
        return cls(slice_ns=BESIDE_SLICE_NS)

    @classmethod
    def window(cls) -> SchedulingRequest:
        """Return the request of the window beside a loop with the request ``watched``.

        Request this scheduling before the window starts threads.
        """
        cpus = _one_each()[1]
        return cls(timer_slack=False, slice_ns=BESIDE_SLICE_NS, quiet_gc=False, cpus=cpus)

    @classmethod
    def realtime(
        cls, fifo: int = DEFAULT_PRIORITY, cpus: tuple[int, ...] = ()
    ) -> SchedulingRequest:
        """Return the request of ``--realtime``: FIFO priority, locked memory and a separate CPU.

        By default, the CPU is the last one, because CPU 0 handles most interrupts.
        """
        usable = usable_cpus()
        chosen = cpus or (usable[-1:] if len(usable) > 1 else ())
        return cls(fifo=fifo, lock_memory=True, cpus=chosen)


def _one_each() -> tuple[tuple[int, ...], tuple[int, ...]]:
    usable = usable_cpus()
    two = len(usable) == 2 and hasattr(os, "sched_setaffinity")
    return (usable[1:], usable[:1]) if two else ((), ())


@dataclass(frozen=True)
class Item:
    """A request, with the requested and the granted value.

    If the values differ, ``reason`` and ``remedy`` explain the difference.
    """

    name: str
    asked: str
    granted: str
    ok: bool
    reason: str = ""
    remedy: str = ""
    """Command that makes the system grant the request."""


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
    """Context manager that changes the scheduling, and yields a report on each request.

    At the end of the context, the original scheduling is restored. A failed request is part of the
    report and raises no error. ``beside`` contains the ids of processes that must not use the
    requested CPUs.

    ::

        with request(SchedulingRequest.realtime()) as granted:
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
    """Return the scheduling that this machine permits for ``--realtime``.

    The function requests the scheduling for a moment.
    """
    with request(SchedulingRequest.realtime()) as granted:
        return granted


class _Refused(Exception):
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
    except (OSError, AttributeError, ValueError) as error:  # the platform is unknown
        return Item(name, text, _as_it_is(name), ok=False, reason=f"{error or _NOT_HERE}")


def _as_it_is(name: str) -> str:
    if name == "timer slack":
        slack = _slack_ns()
        return "system default" if slack is None else f"{slack} ns"
    if name == "time slice":
        with contextlib.suppress(OSError):
            return _us(slice_ns())
        return "system default"
    if name == "garbage collector":
        return "on" if gc.isenabled() else "off"
    if name == "memory":
        return "not locked"
    if name == "CPUs":
        return _cpu_text(usable_cpus())
    return _class_name()


@cache
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
        raise _Refused("system default", _NOT_HERE)
    if libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0:
        raise _Refused(f"{before} ns", _why())
    undo.callback(libc.prctl, _PR_SET_TIMERSLACK, before, 0, 0, 0)
    return f"{_slack_ns()} ns"


def _us(ns: int) -> str:
    return f"{ns / 1e3:g} us" if ns else "system default"


def _slice(wanted: SchedulingRequest) -> _Asker:
    def ask(undo: contextlib.ExitStack) -> str:
        before = slice_ns()
        set_slice(wanted.slice_ns)
        undo.callback(_give_back, before)
        if slice_ns() != wanted.slice_ns:
            raise _Refused(_us(slice_ns()), "needs Linux 6.12 or later")
        return _us(wanted.slice_ns)

    return ask


def _give_back(slice_before_ns: int) -> None:
    with contextlib.suppress(OSError):
        set_slice(slice_before_ns)


_collect = gc.collect


def _quiet_gc(undo: contextlib.ExitStack) -> str:
    if gc.isenabled():
        undo.callback(gc.enable)
    undo.callback(gc.unfreeze)
    with held_back():
        _collect()
    gc.freeze()
    gc.disable()
    return "quiet"


def _lock_memory(undo: contextlib.ExitStack) -> str:
    libc = _libc()
    if libc is None:
        raise _Refused("not locked", _NOT_HERE)
    remedy = f'echo "$USER - memlock unlimited" | sudo tee -a {_LIMITS}   # then log in again'
    unlimited = _may_lock_all()
    # if the limit is finite, MCL_FUTURE would make later allocations fail
    flags = _MCL_CURRENT | _MCL_FUTURE if unlimited else _MCL_CURRENT
    if libc.mlockall(flags) != 0:
        raise _Refused("not locked", _why(), remedy)
    undo.callback(libc.munlockall)
    if not unlimited:
        raise _Refused("only memory allocated so far", "locked memory is limited", remedy)
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
    with contextlib.suppress(OSError):
        os.sched_setaffinity(process, cpus)


def _fifo(wanted: SchedulingRequest) -> _Asker:
    def ask(undo: contextlib.ExitStack) -> str:
        if not hasattr(os, "sched_setscheduler"):
            raise _Refused("system default", _NOT_HERE)
        if len(usable_cpus()) < 2:
            raise _Refused(
                _class_name(),
                "only one CPU is usable, so an overloaded loop with SCHED_FIFO would block all "
                "other programs",
                "make a second CPU usable, or run without --realtime",
            )
        before, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
        try:
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(wanted.fifo))
        except OSError as error:
            raise _Refused(
                _class_name(),
                str(error.strerror),
                f'echo "$USER - rtprio {wanted.fifo}" | sudo tee -a {_LIMITS}   # then log in '
                "again; start a container with --cap-add SYS_NICE",
            ) from error
        undo.callback(_restore_class, before, parameters)
        return _class_name()

    return ask


def _restore_class(before: int, parameters: os.sched_param) -> None:
    try:
        os.sched_setscheduler(0, before, parameters)
    except PermissionError:  # reset-on-fork cannot be undone without privileges
        os.sched_setscheduler(0, before | os.SCHED_RESET_ON_FORK, parameters)


def _class_name() -> str:
    if not hasattr(os, "sched_getscheduler"):
        return "system default"
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    names = {os.SCHED_OTHER: "SCHED_OTHER", os.SCHED_FIFO: "SCHED_FIFO", os.SCHED_RR: "SCHED_RR"}
    priority = os.sched_getparam(0).sched_priority
    return f"{names.get(policy, f'class {policy}')} {priority or ''}".strip()


def _cpu_text(cpus: tuple[int, ...]) -> str:
    return ", ".join(map(str, cpus)) or "any"
