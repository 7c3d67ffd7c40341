"""(d) NASA's F-16 check cases as fast as possible: simulated over wall time.

Step 5 ms, control law and guidance at 50 Hz over the bus, everything recorded.  The wall time runs
from when all is ready and the writing process is there to when the recording is finished and
closed.  Case 13.1 runs against a C program that does the same work and writes the same rows as they
are (``f16_loop.c``).  *The writer alone* writes the rows of case 13.1 again, without a simulation.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from rtsim.models.f16.scenario import scenario
from rtsim.record.reading import TrackData
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from tools.bench.f16_c import FLAGS, NoCompiler
from tools.bench.f16_loop import AGREE, CASE, CLoop, check
from tools.bench.results import Result, Row
from tools.bench.timed import TimedFile, TimedNothing
from tools.bench.turns import in_turns, median_ratio

OTHER = "15"
OTHER_BOUND = 300.0
RECORDED, SILENT = 1000.0, 2000.0
RECORDED_TO_C, SILENT_TO_C = 2.5, 1.5
OF_WRITER, WRITER = 0.8, 700.0
_BATCH_ROWS = 2000

Flights = Mapping[str, list[float]]


def fly(case: str, recording: bool, until: float = 0.0) -> float:
    """Simulated over wall time of one flight; ``until`` 0 is the case's own duration."""
    flown = scenario(case, until=until)
    with tempfile.TemporaryDirectory() as folder:
        file = TimedFile(Path(folder, "f16.mcap")) if recording else TimedNothing()
        outcome = simulate(flown, recorder=file, engine="compiled")
        return outcome.ended.ns / (file.finished - file.ready)


def rewrite(tracks: Iterable[TrackData], until_ns: int) -> float:
    """Simulated over wall time of a recording whose rows are all there already."""
    with tempfile.TemporaryDirectory() as folder:
        file = TimedFile(Path(folder, "again.mcap"))
        pairs = [(file.track(t.name, t.integers, t.signals), t) for t in tracks]
        file.start({})
        most = max(len(data.words) for _, data in pairs)
        for k in range(0, most, _BATCH_ROWS):
            for track, data in pairs:
                share = slice(*(len(data.words) * i // most for i in (k, k + _BATCH_ROWS)))
                head = 1 + len(data.integers)
                values = data.words[share, head:].view(np.float64)
                track.append_many(data.words[share, 0], (0,) * (head - 1), values)
            file.pump(wait=True)
        file.finish({})
        return until_ns / (file.finished - file.ready)


def run(quick: bool = False, until: float = 0.0, rounds: int | None = None) -> Result:
    """Measure: whole flights in turns; ``until`` shortens those of rtsim for a test."""
    title, notes = "F-16 closed loop, times faster than real time", []
    recorder = MemoryRecorder()
    simulate(scenario(CASE, until=until), recorder=recorder, engine="compiled")
    recording = recorder.recording()
    tracks = [recording.track(name) for name in recording.tracks]
    contenders: dict[str, Callable[[], float]] = {
        "rtsim": lambda: fly(CASE, True, until),
        "rtsim silent": lambda: fly(CASE, False, until),
        "writer": lambda: rewrite(tracks, recording.end_ns),
        "other": lambda: fly(OTHER, True, until or (60.0 if quick else 0.0)),
        "other silent": lambda: fly(OTHER, False, until or (60.0 if quick else 0.0)),
    }
    with tempfile.TemporaryDirectory() as folder:
        try:
            c = CLoop(Path(folder), until)
            contenders |= {"C": lambda: c.fly(True), "C silent": lambda: c.fly(False)}
            last, worst = check(CLoop(Path(folder)))
            notes.append(
                f"C and rtsim: no double differs by more than {worst:.2g} of its range (bound "
                f"{AGREE:g}), and by {last:.2g} at the end; times and stamps are equal"
            )
            missing = ""
        except NoCompiler as error:
            missing = str(error)
        seen = in_turns(contenders, rounds or (2 if quick else 15))
    notes.append("ratio: the time of rtsim over that of C, median over the rounds")
    return Result("speed", title, (*_rows(seen), *_against_c(seen, missing)), tuple(notes))


def _figures(seen: list[float]) -> dict[str, float | None]:
    return {"median": float(np.median(seen)), "slowest": min(seen), "fastest": max(seen)}


def _rows(seen: Flights) -> list[Row]:
    median = {name: float(np.median(v)) for name, v in seen.items()}
    share, alone = median["rtsim"] / median["writer"], median["writer"]
    kept = median["rtsim"] >= RECORDED or (share >= OF_WRITER and alone >= WRITER)
    recorded = f">= {RECORDED:g}, or >= {OF_WRITER:g} of the writer, which has >= {WRITER:g}"
    return [
        Row(f"case {CASE}, recording", _figures(seen["rtsim"]), recorded, kept),
        Row(f"case {CASE}, the writer alone", _figures(seen["writer"])),
        Row(
            f"case {CASE}, no recording", _figures(seen["rtsim silent"]),
            f">= {SILENT:g}", median["rtsim silent"] >= SILENT,
        ),
        Row(
            f"case {OTHER}, recording", _figures(seen["other"]),
            f">= {OTHER_BOUND:g}", median["other"] >= OTHER_BOUND,
        ),
        Row(f"case {OTHER}, no recording", _figures(seen["other silent"])),
    ]  # fmt: skip


def _against_c(seen: Flights, missing: str) -> list[Row]:
    if missing:
        return [Row(f"C: {missing}", {})]
    rows = []
    for kind, what, most in (
        ("", "rows written to files as they are", RECORDED_TO_C),
        (" silent", "no recording", SILENT_TO_C),
    ):
        ratio = median_ratio(seen[f"C{kind}"], seen[f"rtsim{kind}"])
        figures = _figures(seen[f"C{kind}"]) | {"ratio [x]": ratio}
        what = f"case {CASE} in C, cc {' '.join(FLAGS)}, {what}"
        rows.append(Row(what, figures, f"<= {most:g} x", ratio <= most))
    return rows
