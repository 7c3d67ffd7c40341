"""The order of threads depends on the program and its messages, not on how time is granted."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from program_runs import MS, Compile, Ended, run_to_end

from hitl.programs.started import Datagram

_FEW, _ALL = 24, 10_000


def _digest(program: Path, seed: int, longest_ns: int) -> tuple[str, int]:
    draw = random.Random(seed)
    times = sorted(draw.randrange(1, 60 * MS) for _ in range(30))
    sends = [Datagram(at_ns, 4000, b"%d" % k, 9) for k, at_ns in enumerate(times)]
    cut = random.Random(longest_ns)
    ended: Ended = run_to_end(
        program, str(seed), sends=sends, step=lambda: cut.randrange(1, longest_ns + 1)
    )
    assert "exit status 0" in ended.error, ended.error
    assert len(ended.sent) == 101
    return hashlib.sha256(repr(ended.sent).encode()).hexdigest(), len(ended.notes)


def _equal(program: Path, seeds: range) -> set[str]:
    digests = set()
    for seed in seeds:
        whole, cut = (_digest(program, seed, ns) for ns in (1000 * MS, 3 * MS))
        assert whole == cut, f"schedule {seed} differs between two runs"
        digests.add(whole[0])
    return digests


def test_random_schedules_do_not_depend_on_the_grants(compiled_program: Compile) -> None:
    program = compiled_program("schedules.c")
    digests = _equal(program, range(_FEW))
    assert len(digests) == _FEW
    assert _digest(program, 3, 17_001)[0] in digests


@pytest.mark.long
@pytest.mark.full
def test_ten_thousand_schedules(compiled_program: Compile) -> None:
    assert len(_equal(compiled_program("schedules.c"), range(_ALL))) == _ALL
