"""What bits depend on, and what is said where it differs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rtsim.record.fingerprint import differences, fingerprint

ROOT = Path(__file__).resolve().parents[2]


def test_it_is_the_same_each_time_and_complete() -> None:
    one = fingerprint()
    assert one == fingerprint()
    assert all(one[key] for key in one if key != "settings")
    assert differences(one, fingerprint()) == []


def test_it_does_not_import_numba() -> None:
    program = (
        "import sys; from rtsim.record.fingerprint import fingerprint; fingerprint();"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_processor_features_are_those_of_arithmetic(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags : fpu vme sse2 avx2 fma hypervisor\n\nprocessor : 1\n")
    assert fingerprint(info)["processor features"] == "avx2 fma fpu sse2"
    info.write_text("Features : fp asimd evtstrm\n")
    assert fingerprint(info)["processor features"] == "asimd fp"


def test_settings_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    monkeypatch.setenv("NUMBA_OPT", "0")
    assert differences(before, fingerprint()) == [
        "settings: none in the recording, NUMBA_OPT=0 here"
    ]


def test_differences_are_said_in_words() -> None:
    then = {"numpy": "1.26.0", "processor features": "avx2 fma sse2", "libc": "glibc 2.36"}
    now = {"numpy": "2.0.0", "processor features": "avx512f sse2", "libc": "glibc 2.36"}
    assert differences(then, now) == [
        "numpy: 1.26.0 in the recording, 2.0.0 here",
        "processor features: here without avx2 fma and with avx512f",
    ]
