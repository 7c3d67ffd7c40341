"""A description of the machine, for timing figures: processor, kernel, CPUs."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

UNKNOWN = "unknown"
_MOST = 65_536  # bytes of a /proc file that are read


@dataclass(frozen=True)
class Machine:
    """A description of a machine that can be published: it has no names of host or user."""

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
    """Return a description of this machine; ``root`` is the folder with /proc and /sys."""
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
    """Return the CPUs that this thread may run on, in ascending order."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _read(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY)  # a tenth of the time of Path.open
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
    """Return the fields of the first processor in /proc/cpuinfo; they never change."""
    lines = (line.partition(":") for line in _read(path).split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def _preemption(version: str) -> str:
    """Return the preemption model, such as ``PREEMPT_RT``, from the kernel's version line."""
    return next((word for word in version.split() if word.startswith("PREEMPT")), "none stated")
