"""Generated stimuli for C++ and for Arduino code: what is read, and what has no distance."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hitl
from hitl.building.build import build
from hitl.stimuli.generating import Generated, Limits, generate
from hitl.stimuli.running import program

ARDUINO = Path(hitl.__file__).parent / "examples" / "arduino"
SOURCE = """#include "reg.hpp"
#include <string>
#include <stdexcept>
enum class Mode { idle, run };
constexpr double limited(double x) { return x > 3.0 ? 3.0 : x; }
template <class T> static T clamped(T x, T low, T high)
{
    if (x < low) return low;
    return x > high ? high : x;
}
struct State {
    static const int LIMIT = 40; Mode mode = Mode::idle; int table[5] = {0}; int bits : 4;
};
static State s;
int Regulator::step(int a, double b)
{
    std::string who = "x";
    if (who == "y") return -1;
    switch (s.mode) {
    case Mode::idle: if (a == 77) s.mode = Mode::run; break;
    case Mode::run: break;
    }
    auto big = [&](int z) { return z > State::LIMIT && b > limited(9.0); };
    if constexpr (limited(1.0) > 0.5) { if (int q = a; q > 900) return 9; }
    if (a == 4) throw std::runtime_error("four");
    s.bits = a;
    if (s.bits == 3) s.table[a / 100] = 1;
    return big(a) ? clamped(a, -5, 500) : a / (a - 500 + (s.bits == 7));
}
"""


def reg(folder: Path, source: str = SOURCE) -> Path:
    (folder / "reg.cpp").write_text(source)
    (folder / "reg.hpp").write_text("class Regulator { public: int step(int a, double b); };\n")
    (folder / "reg.toml").write_text(
        'name = "reg"\nlanguage = "c++"\nperiod = "1/100"\nsources = ["reg.cpp"]\n'
        'headers = ["reg.hpp"]\n[code]\nobjects = ["Regulator r"]\nstep = "y = r.step(a, b)"\n'
        '[inputs]\na = { type = "int32", low = -9, high = 2000 }\nb = { low = 0, high = 10 }\n'
        '[outputs]\ny = { type = "int32" }\n'
    )
    return folder / "reg.toml"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    return generate(build(reg(tmp_path_factory.mktemp("reg"))), Limits(runs=4000, steps=5))


@pytest.mark.long
def test_classes_templates_lambdas_and_enumerations_are_read(found: Generated) -> None:
    texts = {one.in_words for one in found.branches}
    for text in (
        "reg.cpp:8: x < low is true",
        "reg.cpp:20: a == 77 is true",
        "reg.cpp:21: switch (s.mode) takes case Mode::run",
        "reg.cpp:23: z > State::LIMIT is false",
        "reg.cpp:24: q > 900 is true",
        "reg.cpp:27: s.bits == 3 is true",
    ):
        assert text in texts
    assert not [text for text in texts if "limited(1.0)" in text]
    assert found.unmeasured == ("the functions at reg.cpp:5",)  # constexpr
    left = {one.branch.in_words for one in found.open}
    assert left == {
        'reg.cpp:18: who == "y" is true',
        "reg.cpp:8: x < low is true",
        "reg.cpp:19: switch (s.mode) takes default",
        "reg.cpp:25: a == 4 is true",  # it throws there
    }


@pytest.mark.long
def test_an_exception_a_divisor_and_an_index_become_stimuli(found: Generated) -> None:
    how = {one.fails for one in found.failing}
    assert how == {"it threw an exception that nothing caught", "it was ended by SIGFPE"}
    assert "reg.cpp:28: a / (a - 500 + (s.bits == 7)) divides by 0" in found.hazards
    assert "reg.cpp:27: s.table[a / 100] is out of bounds" in found.hazards


ONCE = """struct Once { Once() {} Once(const Once&) = delete; bool operator==(int) const; };
bool Once::operator==(int x) const { return x > 2; }
bool once() { Once o; return o == 3 ? true : false; }
"""
"""An object that cannot be copied, so a probe has to refer to it."""


CLASSES = """
#include <atomic>
#include <string>
#include <utility>
struct Unit { int v; Unit operator/(Unit o) const { return {v + o.v}; } };
struct Held {
    int v = 0; Held() = default; Held(const Held&) = delete;
    Held& operator+=(int x) { v += x; return *this; }
    Held& operator++() { ++v; return *this; }
};
int more(int x)
{
    std::atomic<int> a{0}; std::string s; Held h; int n = 2147483647 - x; volatile int w = x;
    a += x; a++; s += "abc"; s += {'a', 'b'}; h += x; (++h).v = 3; w++; w -= 2;
    for (auto it = s.begin(); it != s.end(); ++it) *it += 1;
    (++n) = 3;
    return (Unit{x} / Unit{0}).v + a + h.v;
}
"""


@pytest.mark.long
def test_operators_of_classes_are_called_as_often_as_without_probes(tmp_path: Path) -> None:
    source = CLASSES + SOURCE.replace("if (a == 4) throw", "if (more(a + 9) > 1 << 30) throw")
    made = build(reg(tmp_path, source))
    with program(made) as compiled:
        assert compiled.probes.hazards
    found = generate(made, Limits(runs=500, steps=2))
    assert [text for text in found.hazards if "overflows" in text] == ["reg.cpp:16: ++n overflows"]
    assert not [text for text in found.hazards if "Unit" in text]


@pytest.mark.long
def test_operands_that_no_probe_can_bind_leave_the_branches_measured(tmp_path: Path) -> None:
    stream = SOURCE.replace("#include <string>", "#include <sstream>").replace(
        "std::string who", "std::ostringstream o; o << std::hex << std::endl; std::string who"
    )
    with program(build(reg(tmp_path, stream + ONCE))) as made:
        assert made.probes.distances
        assert not made.probes.hazards
        assert len(made.found.branches) > 15


@pytest.mark.long
@pytest.mark.parametrize(("name", "branches"), [("regulator", 10), ("button", 12)])
def test_the_shipped_arduino_examples(tmp_path: Path, name: str, branches: int) -> None:
    shutil.copytree(ARDUINO, tmp_path / "arduino")
    result = generate(build(tmp_path / "arduino" / f"{name}.toml"), Limits(runs=1500, steps=20))
    assert len(result.branches) == branches
    assert result.reached.all()
    assert result.hazards == ()
