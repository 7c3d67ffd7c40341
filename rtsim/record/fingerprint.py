"""Fingerprint of an installation: packages, C library, processor features and settings.

Two runs with the same source code and equal fingerprints have exactly the same results. The
fingerprint contains neither host name nor user name.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rtsim.core.version import __version__

PACKAGES = ("rtsim", "numpy", "scipy", "numba", "llvmlite")
SETTINGS = (
    "NUMBA_CPU_FEATURES",
    "NUMBA_CPU_NAME",
    "NUMBA_DISABLE_JIT",
    "NUMBA_OPT",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
)
# Processor features by which code generators and libm select instructions.
_ARITHMETIC = re.compile(r"(sse|ssse|avx|fma|f16c|bmi|amx|asimd|neon|fp|sve|sme|vfp)[0-9a-z_]*\Z")
_LONGEST = 65_536


def fingerprint(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """Return the fingerprint as texts by key.

    The result is constant while the installation and the machine are the same.
    """
    out = {"python": f"{platform.python_implementation()} {platform.python_version()}"}
    out |= {name: _version(name) for name in PACKAGES}
    out |= {
        "system": platform.system(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip() or platform.release(),
        "processor features": _features(cpuinfo) or platform.processor(),
        "settings": " ".join(f"{k}={os.environ[k]}" for k in SETTINGS if os.environ.get(k)),
    }
    return out


def differences(recorded: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    out = []
    for key in sorted(recorded.keys() | here.keys()):
        then, now = recorded.get(key, ""), here.get(key, "")
        if then == now:
            continue
        if key == "processor features":
            gone, new = set(then.split()) - set(now.split()), set(now.split()) - set(then.split())
            words = [f"without {' '.join(sorted(gone))}"] if gone else []
            words += [f"with {' '.join(sorted(new))}"] if new else []
            out.append(f"{key}: here {' and '.join(words)}")
        else:
            out.append(f"{key}: {then or 'none'} in the recording, {now or 'none'} here")
    return out


@cache  # each look-up takes 2 ms, and one process may execute many runs
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        if package != "rtsim":
            return ""
        return __version__  # rtsim runs from a checkout without installation


def _features(cpuinfo: Path) -> str:
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST)
    except OSError:
        return ""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    words = found[1].split() if found else []
    return " ".join(sorted(filter(_ARITHMETIC.match, words)))
