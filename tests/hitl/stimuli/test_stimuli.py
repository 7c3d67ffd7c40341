"""Generated stimuli: what the search reaches, what it says about the rest, and that it repeats."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_parts import with_gcc
from stimuli_parts import DIVIDING, write_dividing, write_machine

import hitl
from hitl.building.build import COVERAGE, Build, build
from hitl.building.coverage import measured
from hitl.building.toolchain import BuildError, Toolchain
from hitl.controllers.sil import SilController
from hitl.interface import load_interface
from hitl.interface.fields import FIELD, read_field
from hitl.stimuli import running as program_module
from hitl.stimuli.file import Ranges, Stimuli, StimuliError
from hitl.stimuli.generating import Generated, Limits, generate
from hitl.stimuli.probes import Instrumenter
from rtsim.core.tag import Tag
from rtsim.core.toml import Place, read

ROOT = Path(hitl.__file__).parents[1]
MACHINE_RUNS = Limits(seed=0, runs=1500, steps=40)


@pytest.fixture(scope="module")
def dividing(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return build(write_dividing(tmp_path_factory.mktemp("dividing")))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    folder = tmp_path_factory.mktemp("machine")
    return generate(build(write_machine(folder)), MACHINE_RUNS)


def test_the_search_reaches_states_that_need_several_inputs_in_order(machine: Generated) -> None:
    never = [one.branch.in_words for one in machine.open]
    assert never == ["machine.c:26: speed * speed < 0.0 is true"]
    assert len(machine.branches) == 17
    assert int(machine.reached.sum()) == 16
    assert not machine.complete
    assert machine.runs == MACHINE_RUNS.runs
    told = {text for one in machine.stimuli.stimuli for text in one.reaches}
    assert "machine.c:23: code == 4711 is true" in told
    assert "machine.c:14: count >= 6 is just false" in told
    assert "machine.c:13: (speed) >= 100.5 is just true" in told  # half of the macro's condition
    assert max(len(one.steps) for one in machine.stimuli.stimuli) < 25


def test_what_was_not_reached_is_not_called_unreachable(machine: Generated) -> None:
    (missing,) = machine.to_json()["open"]
    assert missing["not_reached_in_runs"] == 1500
    assert missing["condition"] == "speed * speed < 0.0"
    assert missing["nearest"] == "nearest: 0 against 0"
    assert "16 of 17 branches (94.1 %)" in machine.in_words
    assert "unreachable" not in machine.in_words


def test_what_was_not_taken_with_little_to_spare_is_listed(machine: Generated) -> None:
    """All that is missing from the count is listed, here or with the open branches."""
    reached, comparisons = machine.edges
    told = machine.to_json()
    far = told["not_with_little_to_spare"]
    assert len(far) + len(told["open"]) == comparisons - reached
    assert all(one["nearest"].startswith("nearest: ") for one in far)
    names = {(one["line"], one["condition"], one["way"]) for one in far}
    assert len(names) == len(far)
    ways = {one.branch.just for one in machine.far}
    assert ways.isdisjoint(text for one in machine.stimuli.stimuli for text in one.reaches)


def test_the_same_seed_and_runs_give_the_same_file(machine: Generated, tmp_path: Path) -> None:
    # a search that the clock ends is what --runs gives with its number of runs
    made = build(write_machine(tmp_path))
    left = iter([True] * 4)
    early = generate(made, MACHINE_RUNS, goes_on=lambda: next(left, False))
    assert not early.in_full
    again = generate(made, Limits(seed=0, runs=early.runs, steps=40))
    assert again.in_full
    assert again.stimuli.text() == early.stimuli.text()
    assert early.stimuli.text() != machine.stimuli.text()


def test_a_crash_becomes_a_stimulus_and_counts_for_no_branch(dividing: Build) -> None:
    found = generate(dividing, Limits(runs=2000, steps=10))
    (failing,) = found.failing
    assert failing.fails == "it was ended by SIGFPE"
    assert failing.steps.tolist() == [[77.0]]
    assert failing.reaches == ("dividing.c:7: 1000 / (code - 77) divides by 0",)
    assert [one.branch.in_words for one in found.open] == ["dividing.c:6: code == 77 is true"]
    assert not found.complete


def test_branches_that_the_run_reaches_need_no_stimulus(dividing: Build) -> None:
    run = np.array([[3.0], [1500.0], [1001.0], [1000.0]])
    found = generate(dividing, Limits(runs=200, steps=10), run=run)
    assert found.begun.tolist() == [True, True, False, True]
    told = [text for one in found.stimuli.stimuli for text in one.reaches if not one.fails]
    assert not [text for text in told if "just" not in text]
    with pytest.raises(StimuliError, match="the C code fails on the inputs of the run, at step 1"):
        generate(dividing, Limits(runs=200), run=np.array([[3.0], [77.0]]))


HAZARDS = """
static const int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static int many[2][3];
int s(int x, int i, int n, int k, double d, int z)
{
    int y = table[i / 10];
    y += many[n & 1][i % 3];
    y += (1 << n) & 1;
    y += ((k - 5) * 70000) & 1;
    y += 1.0 / (d - 4.0) > 0.0;
    y += x / (z * z + 1);
    z /= k + 100001;
    return y + z - (int)sizeof(table[n]) - (&table[n] == table);
}
"""
"""Line 6 reads beyond its array, 8 shifts by 32 or more, 9 overflows, 10 divides by 0.0.

The indices of line 7 and the divisions of lines 11 and 12 are safe.
"""
SAFE = """
int s(int x, int i, int n, int k, double d, int z)
{
    static const int table[COUNT];
    const int *p = table;
    return ((2147383647 + k) & 1) + ((-2147383648 - k) & 1) + p[n & 7] + table[i / 25] + x / 3;
}
"""
"""The sums reach both limits of an int and no more, and the index 8; the array behind
a pointer has no known size."""
RANGES = {"x": (0, 9), "i": (0, 200), "n": (0, 40), "k": (-100, 100000), "d": (0, 100), "z": (0, 9)}


def hazardous(folder: Path) -> Build:
    types = {name: "double" if name == "d" else "int" for name in RANGES}
    (folder / "s.h").write_text(f"int s({', '.join(f'{t} {n}' for n, t in types.items())});\n")
    (folder / "s.c").write_text(HAZARDS)
    rows = [
        f"{n} = {{ low = {low}, high = {high}"
        + (' , type = "int32" }' if types[n] == "int" else " }")
        for n, (low, high) in RANGES.items()
    ]
    (folder / "s.toml").write_text(
        'name = "s"\nperiod = "1/10"\nsources = ["s.c"]\nheaders = ["s.h"]\n'
        f'[code]\nstep = "y = s({", ".join(RANGES)})"\n[inputs]\n'
        + "\n".join(rows)
        + '\n[outputs]\ny = { type = "int32" }\n'
    )
    return build(folder / "s.toml")


@pytest.mark.long
def test_divisors_indices_shifts_and_overflows_are_searched(tmp_path: Path) -> None:
    found = generate(hazardous(tmp_path), Limits(runs=4000, steps=3))
    assert set(found.hazards) == {
        "s.c:6: table[i / 10] is out of bounds",
        "s.c:8: 1 << n shifts too far",
        "s.c:9: (k - 5) * 70000 overflows",
        "s.c:10: 1.0 / (d - 4.0) divides by 0",
    }
    values = {one.text for one in found.branches}
    assert values == {"1.0 / (d - 4.0) > 0.0", "&table[n] == table"}
    assert found.complete
    told = found.to_json()
    assert (told["branches"], told["open"], told["hazards"]) == (4, [], list(found.hazards))
    assert f"4 of {told['hazards_searched']} divisors, indices, shifts and sums" in found.in_words
    named = {text for one in found.stimuli.stimuli for text in one.reaches}
    assert set(found.hazards) <= named
    again = generate(hazardous(tmp_path), Limits(runs=4000, steps=3))
    assert again.stimuli.text() == found.stimuli.text()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("count", "hazards"), [(9, ()), (8, ("s.c:6: table[i / 25] is out of bounds",))]
)
def test_what_reaches_its_limits_and_no_more_is_not_wrong(
    tmp_path: Path, count: int, hazards: tuple[str, ...]
) -> None:
    made = hazardous(tmp_path)
    (tmp_path / "s.c").write_text(SAFE.replace("COUNT", str(count)))
    found = generate(build(made.interface.path), Limits(runs=4000, steps=3))
    assert found.hazards == hazards
    # Two sums inside and four between the terms, and one index; a literal divisor is never 0.
    assert found.to_json()["hazards_searched"] == 7


RESULTS = """
struct bits { int few : 5; int all : 31; };
int s(int x, int i, int n, int k, double d, int z)
{
    static int large = 2147483600, table[3];
    struct bits b = {x, 1};
    int *p = table, y = large;
    y += i;
    y = -2147483647;
    y -= x;
    y = k;
    y *= 70000;
    int up = 2147483647 - i, down = -2147483647 - 1 + i;
    up++;
    --down;
    int least = -2147483647 - 1 + i;
    y = -least;
    y = least / (n - 1 - i - 1);
    y = least % (n - 1 - i - 1);
    least /= n - 1 - i - 1;
    b.few += x; p += 1; p++; d += k; d++; ++b.few; b.all *= 2; *p++ += z; z -= x;
    unsigned u = (unsigned)k; u *= 70000u; u++; d = -d;
    return y + (int)u + b.few;
}
"""
"""Lines 8, 10, 12, 14, 15 and 17 overflow.  Lines 18 to 20 do if ``i`` is 0 and ``n`` is 1."""


@pytest.mark.long
def test_assignments_steps_signs_and_quotients_overflow(tmp_path: Path) -> None:
    made = hazardous(tmp_path)
    (tmp_path / "s.c").write_text(RESULTS)
    found = generate(build(made.interface.path), Limits(runs=8000, steps=3))
    over = {text for text in found.hazards if text.endswith("overflows")}
    expected = {
        "s.c:8: y += i overflows",
        "s.c:10: y -= x overflows",
        "s.c:12: y *= 70000 overflows",
        "s.c:14: up++ overflows",
        "s.c:15: --down overflows",
        "s.c:17: -least overflows",
    }
    assert expected <= over
    # The processor ends the program at one of the quotients; the compiler drops unused ones.
    (quotient,) = over - expected
    assert quotient.partition(": ")[2] in (
        "least / (n - 1 - i - 1) overflows",
        "least % (n - 1 - i - 1) overflows",
    )


MANY = """
int s(int x, int i, int n, int k, double d, int z)
{
    int a = 7 / (x * x + 1), b = 7 / (i * i + 2), c = 7 / (n * n + 3);
    return a + b + c + z / (k - 31337);
}
"""
"""Three divisors that are never 0, and one that is 0 at one value of 100101."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("never", [True, False])
def test_what_cannot_happen_does_not_end_the_search(tmp_path: Path, never: bool) -> None:
    made = hazardous(tmp_path)
    text = MANY if never else MANY.replace("(x * x + 1)", "9").replace("(i * i + 2)", "9")
    (tmp_path / "s.c").write_text(text)
    found = generate(build(made.interface.path), Limits(runs=4000, steps=3))
    assert found.hazards == ("s.c:5: z / (k - 31337) divides by 0",)
    assert f"was found to go wrong in {found.all_runs} runs" in found.in_words
    assert found.to_json()["hazards_searched_in_runs"] == found.all_runs > found.runs


INLINE = """#include <stdint.h>
static inline int32_t ramp(int32_t a)
{
    static const int32_t table[10] = {0};
    return a > 3000 ? 1 : table[a / 250];
}
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("language", ["c", "c++"])
def test_functions_of_a_header_are_measured_where_the_unit_calls_them(
    tmp_path: Path, language: str
) -> None:
    suffix = "c" if language == "c" else "cpp"
    step = "ramp(a)" if language == "c" else "r.of(a)"
    text = INLINE if language == "c" else INLINE + "struct R { int of(int a) { return ramp(a); } };"
    (tmp_path / "ramp.h").write_text(text + "\n")
    (tmp_path / f"ramp.{suffix}").write_text('#include "ramp.h"\n')
    objects = "" if language == "c" else 'objects = ["R r"]\n'
    (tmp_path / "ramp.toml").write_text(
        f'name = "ramp"\nperiod = "1/10"\nlanguage = "{language}"\nsources = ["ramp.{suffix}"]\n'
        f'headers = ["ramp.h"]\n[code]\n{objects}step = "y = {step}"\n'
        '[inputs]\na = { type = "int32", low = 0, high = 5000 }\n'
        '[outputs]\ny = { type = "int32" }\n'
    )
    found = generate(build(tmp_path / "ramp.toml"), Limits(runs=1000, steps=2))
    assert [one.in_words for one in found.branches] == [
        "ramp.h:5: a > 3000 is true",
        "ramp.h:5: a > 3000 is false",
    ]
    assert found.reached.all()
    assert found.hazards == ("ramp.h:5: table[a / 250] is out of bounds",)


def test_a_complex_divisor_is_not_said_to_be_0(tmp_path: Path) -> None:
    made = hazardous(tmp_path)
    source = "typedef double _Complex cx;\n"
    source += "int s(int x, int i, int n, int k, double d, int z)\n{\n    cx c = 1.0;\n"
    (tmp_path / "s.c").write_text(source + "    c = d / c;\n    return c == 1.0 ? x : k;\n}\n")
    assert generate(build(made.interface.path), Limits(runs=50, steps=1)).hazards == ()


@pytest.mark.long
def test_an_expression_that_probes_cannot_read_leaves_the_branches_measured(
    tmp_path: Path,
) -> None:
    """The index of a flexible array member has no number of elements."""
    made = hazardous(tmp_path)
    source = tmp_path / "s.c"
    more = "struct f { int n; int v[]; };\nint first(struct f *f, int i) { return f->v[i]; }\n"
    source.write_text(source.read_text() + more + "int t(int x)\n{ return x > 1 ? 1 : 2; }\n")
    found = generate(build(made.interface.path), Limits(runs=20, steps=3))
    assert len(found.branches) == 6
    assert found.edges[1] == 6, "comparisons still have distances"
    assert "divisors, indices, shifts and sums: not measured" in found.in_words
    assert found.to_json()["hazards_searched"] is None


@pytest.mark.long
def test_a_probe_of_a_divisor_keeps_the_sign_of_zero(tmp_path: Path) -> None:
    made = hazardous(tmp_path)
    head = "int s(int x, int i, int n, int k, double d, int z)"
    (tmp_path / "s.c").write_text(head + "\n{ return 1.0 / (d * -1.0) < 0 ? 1 : 0; }\n")
    interface = tmp_path / "s.toml"
    interface.write_text(interface.read_text().replace("high = 100 }", "high = 0 }"))
    found = generate(build(made.interface.path), Limits(runs=20, steps=1))
    assert found.reached.tolist() == [True, False]


@pytest.mark.parametrize(
    ("strange", "line"),
    [
        ("int s(int x)\n{ switch (x) { case 1 ... 5: return 2; } return 1; }", 2),
        ("int s(int x)\n{ return x ?: 2; }", 2),
        ("int a;\n) int s(int x) { return x ? 1 : 2; }", 3),
    ],
)
def test_what_is_not_understood_is_named_and_never_counts_as_all(
    strange: str, line: int, tmp_path: Path
) -> None:
    source = tmp_path / "dividing.c"
    source.write_text(DIVIDING.replace("int dividing_step", f"{strange}\nint dividing_step"))
    instrumenter = Instrumenter([source])
    text = b'# 1 "dividing.c"\n' + source.read_bytes()
    instrumenter.instrument(text, tmp_path)
    assert instrumenter.found.unread == [f"dividing.c:{line}"]
    result = replace(GENERATED, unmeasured=(f"the functions at dividing.c:{line}",))
    assert GENERATED.complete
    assert not result.complete
    assert f"not measured: the functions at dividing.c:{line}" in result.in_words


NO_BRANCHES = np.zeros(0, np.bool_)
GENERATED = Generated(
    stimuli=Stimuli("dividing", ("code",), ()), branches=(), begun=NO_BRANCHES, reached=NO_BRANCHES,
    edges=(0, 0), open=(), runs=1, in_full=True, unmeasured=(),
)  # fmt: skip

TEXT = b"""# 1 "limit.c"
int limit(int a, double *p, struct s *q, unsigned n)
{
    static int table[2 > 1 ? 3 : 4];
    _Static_assert(sizeof(int) > 2, "int");
    if (a > 3 && !(p == 0 || q->bits))
        return a ? 1 : 2;
    while (1) { if (n-- == 0u) break; }
    for (int k = 0; k < 3; k++) { }
    do a++; while (a < 7);
    switch (a) { case 1: case 2 + 1: return 3; }
    return (a == 4) + sizeof(a < 9);
}
# 1 "/usr/include/other.h"
static inline int other(int a) { return a ? 1 : 2; }
"""


def test_branches_are_conditions_without_literals_and_what_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "limit.c").write_bytes(TEXT.partition(b"\n")[2])
    instrumenter = Instrumenter([tmp_path / "limit.c"])
    out = instrumenter.instrument(TEXT, tmp_path).decode()
    found = [f"{b.line} {b.text} {b.way}" for b in instrumenter.found.branches]
    both = [
        "5 a > 3", "5 p == 0", "5 q->bits", "6 a", "7 n-- == 0u", "8 k < 3", "9 a < 7", "11 a == 4",
    ]  # fmt: skip
    assert sorted(found) == sorted(
        [f"{one} {way}" for one in both for way in ("true", "false")]
        + ["10 a case 1", "10 a case 2 + 1", "10 a default"]
    )
    assert out.count("\n") == TEXT.count(b"\n")
    assert "+ sizeof(a < 9);" in out
    assert "other(int a) { return a ? 1 : 2; }" in out
    again = Instrumenter([tmp_path / "limit.c"])
    again.instrument(TEXT, tmp_path)
    again.instrument(TEXT, tmp_path)  # as two sources that include the same header
    assert again.found.branches == instrumenter.found.branches


def test_values_stay_in_the_ranges_of_the_interface_file(tmp_path: Path) -> None:
    path = write_machine(tmp_path)
    text = path.read_text().replace("low = -100, high = 100", "high = inf, nan = true")
    path.write_text(text.replace("low = 0, high = 10000", 'type = "float32"'))
    run = np.array([[4.0, 2.0, 0.0], [-30.0, 3.0, 1.0]])
    ranges = Ranges(load_interface(path), run, [4711.0, 0.5])
    rng = np.random.default_rng(0)
    drawn = np.array([[ranges.drawn(rng, c) for c in range(3)] for _ in range(3000)])
    assert np.isfinite(drawn[:, [0, 2]]).all()
    assert np.abs(drawn[:, 0]).max() == 9400.0  # twice the largest number of run and text
    assert np.isnan(drawn[:, 1]).any()
    assert np.isposinf(drawn[:, 1]).any()
    assert not np.isneginf(drawn[:, 1]).any()
    assert set(np.unique(drawn[:, 2] % 1.0)) == {0.0}
    assert drawn[:, 2].min() == 0.0
    assert drawn[:, 2].max() == 65535.0
    assert ranges.fitted(np.array([[math.nan, math.nan, 0.6]]))[0, [0, 2]].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("table", "row", "words"),
    [
        ("inputs", {"nan": True, "type": "int8"}, "only to inputs of a floating-point type"),
        ("outputs", {"nan": True}, "only to inputs of a floating-point type"),
    ],
)
def test_the_key_nan_is_checked(table: str, row: dict[str, Any], words: str) -> None:
    entries = read(row, FIELD, Place())
    with pytest.raises(ValueError, match=words):
        read_field(table, "x", entries, "float64")


def test_a_compiler_that_refuses_distances_gets_plain_probes(
    dividing: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Toolchain.run

    def refusing(self: Toolchain, arguments: Any, folder: Path) -> Any:
        named = [Path(str(a)) for a in arguments if str(a).endswith("probed-0.c")]
        if named and "rtsim_compare(0u" in named[0].read_text():
            raise BuildError("no statement expressions here")
        return run(self, arguments, folder)

    monkeypatch.setattr(Toolchain, "run", refusing)
    with program_module.program(dividing) as found:
        assert not found.probes.distances
        assert len(found.found.branches) == 4


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(seed=-1), "--seed -1 is negative"),
        (Limits(runs=0), "--runs 0 is not possible"),
        (Limits(steps=0), "--steps 0 is not possible"),
    ],
)
def test_limits_that_allow_nothing_are_refused(limits: Limits, words: str) -> None:
    with pytest.raises(StimuliError, match=words):
        limits.check()


def _turns(limit: str) -> list[str]:
    """Return what needs 3000 ft beside the track; without a range, 1000 ft are tried."""
    call = (
        f"rtsim_limited(k->deviation_gain * in->lateral_deviation, -{limit}, {limit}) "
        "at f16_control.c:57"
    )
    return [
        f"real.h:22: value < high is false in {call}",
        f"real.h:23: below > low is false in {call}",
    ]


SHIPPED = {
    "firmware/core/f16_control.toml": _turns("30.0"),
    "firmware/core/f16_control.toml:single": _turns("30.0f"),
    "firmware/core/pid.toml": [
        "pid.c:50: k->tracking_time > k->period is false",
        "real.h:22: value < high is false in rtsim_limited(0.0, k->lowest, k->highest) at pid.c:35",
        "real.h:23: below > low is false in rtsim_limited(0.0, k->lowest, k->highest) at pid.c:35",
    ],
    "hitl/starter/motor.toml": [],
    "hitl/examples/context/filter.toml": [],
    "hitl/examples/embedded_coder/pi.toml": [],
    "hitl/examples/flight/guidance.toml": [],
    "hitl/examples/flight/telemetry.toml": [],
    "hitl/examples/processor/deep.toml": [],
    "hitl/examples/scalars/mixer.toml": [],
}
"""Controllers that ship with rtsim, and the branches that no input reaches."""
WITHOUT_BRANCHES = {
    "unstable_control", "types", "observer", "cascade", "level", "position", "sensors",
}  # fmt: skip


@with_gcc
@pytest.mark.parametrize("reference", SHIPPED)
def test_stimuli_reach_all_branches_that_gcov_counts(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gcov measures on its own, in the usual worker and without optimisation."""
    monkeypatch.delenv("GCOV_PREFIX", raising=False)
    values: dict[str, object] = {"gain": 0.2, "integral_gain": 1.0} if "motor" in reference else {}
    interface = load_interface(ROOT / reference)
    found = generate(build(interface), Limits(runs=600), values=values)
    assert [one.branch.in_words for one in found.open] == SHIPPED[reference]
    counted = build(interface, COVERAGE)
    with measured(counted, tmp_path / "pages") as coverage:
        for one in found.stimuli.stimuli:
            _run(SilController(counted, values, cases=tmp_path), one.steps)
    total = coverage.total
    # gcov counts neither calls that decide nor each call of a function by itself.
    assert total.branches <= len(found.branches)
    plain = [one for one in found.open if not one.branch.call]
    assert total.branches - total.branches_run == len(plain)


def _run(controller: SilController, steps: Any) -> None:
    with closing(controller.fresh()) as running:
        for k, row in enumerate(steps):
            tag = Tag(running.interface.period.tick(k))
            running.send(tag, row)
            assert running.receive(tag, 10.0) is not None


def test_the_list_of_shipped_controllers_is_complete() -> None:
    files = [*(ROOT / "firmware" / "core").glob("*.toml"), *(ROOT / "hitl").glob("**/*.toml")]
    named = {Path(name.partition(":")[0]).stem for name in SHIPPED}
    others = {"busy"}  # takes 2 s for some inputs; its loop is left in every run
    for path in files:
        if path.parent.name == "arduino":  # C++, which is not read
            continue
        if path.parent.name in ("core", "starter") or "examples" in path.parts:
            interface = load_interface(path)
            stem = interface.sources[0].stem if path.stem not in named else path.stem
            assert stem in named | WITHOUT_BRANCHES | others, path
