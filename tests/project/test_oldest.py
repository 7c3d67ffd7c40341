"""``make test-oldest``: each dependency with a lower bound has tests that touch it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from tools import oldest
from tools.setup import ROOT


def test_each_lower_bound_has_tests() -> None:
    names = {pin.partition("==")[0] for pin in oldest.pins()}
    assert names <= set(oldest.SAMPLE), "add the new one's tests to tools/oldest.py"
    files = {t.partition("::")[0] for tests in oldest.SAMPLE.values() for t in tests}
    gone = [file for file in files if not (ROOT / file).is_file()]
    assert not gone, "their names in tools/oldest.py"


def test_another_version_than_the_lower_bound_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = version("click")
    ran: list[list[str]] = []

    def call(command: list[str], **_: object) -> int:
        ran.append(command)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setattr(oldest, "pins", lambda: [f"click=={here}.0", "pytest==1.0", "none-such==1"])
    assert oldest.main([]) == 1
    assert not ran
    told = capsys.readouterr().out
    assert f"pytest==1.0, here {version('pytest')}; none-such==1, here none" in told
    monkeypatch.setattr(oldest, "pins", lambda: [f"click=={here}"])
    assert oldest.main(["-q"]) == 0
    assert ran == [[sys.executable, "-m", "pytest", "-q", *oldest.SAMPLE["click"]]]
