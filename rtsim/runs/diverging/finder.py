"""Find the first difference between two recordings.

The second recording can be a repetition of the first run. The traces are compared first.
Differences in memories and random streams are found in saved states
(``rtsim.runs.diverging.narrowing``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rtsim.core.errors import CheckpointError, RecordingError, ScenarioError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.record.events import RunEnding, died_of
from rtsim.record.fingerprint import differences as other_fingerprint
from rtsim.record.fingerprint import fingerprint
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import end_of
from rtsim.record.verdict import what_both_have
from rtsim.runs.diverging.first import Place, differences, failure, last_before, walk
from rtsim.runs.diverging.inputs import Feeding, Teller, fed
from rtsim.runs.diverging.narrowing import Beneath, Both, Narrowing, RecordedRun, Say
from rtsim.runs.replay import changed_since, fed_tracks
from rtsim.runs.resume import nearest
from rtsim.scenario.scenario import Scenario

_MOST_SAVED = 64
"""Number of checkpoints next to a recording that are compared with its re-run."""
_MOST_NOTES = 20
_ROWS_AT_ONCE = 200_000
"""Number of rows in a piece of a run; each piece is repeated and compared before the next piece."""


def diverge(
    a: Recording,
    b: Recording | None = None,
    *,
    scenarios: tuple[Scenario | None, Scenario | None] = (None, None),
    live: bool = False,
    since_ns: int | None = None,
    fly: bool = True,
    say: Say | None = None,
) -> Verdict:
    """Find the first difference between the recordings ``a`` and ``b``.

    By default, ``b`` is a repetition of ``a``.

    ``scenarios`` contains the scenarios of ``a`` and ``b``, if the recordings do not name them.
    With ``live``, external controllers run again instead of replaying their answers. With
    ``since_ns``, the search begins at the last checkpoint before this time. With ``fly=False``,
    only the recordings are compared, and no run is repeated. ``say`` is called with a text about
    the progress.

    Raises :class:`RecordingError` for recordings without a trace, or of different scenarios;
    :class:`ScenarioError` and :class:`CheckpointError` for a time without usable checkpoints.
    """
    for recording in (a,) if b is None else (a, b):
        if not recording.trace_rows:
            why = f": {recording.truncated}" if recording.truncated else ""
            raise RecordingError(
                f"{recording.source} contains no rows of the trace{why}, so there is nothing "
                "to compare"
            )
    if b is not None:
        if not {n for n, t in a.tracks.items() if t.spec.deterministic} & b.tracks.keys():
            raise RecordingError(
                f"{a.source} and {b.source} are of different scenarios and have no component in "
                "common; give two recordings of the same scenario"
            )
        a, b, _ = what_both_have(a, b)
    run = RecordedRun(a, scenarios[0], live, say)
    other = None if b is None else RecordedRun(b, scenarios[1], live, say)
    return _Search(run, other, fly, since_ns).verdict()


class _Search:
    def __init__(
        self, a: RecordedRun, b: RecordedRun | None, fly: bool, since_ns: int | None
    ) -> None:
        if b is None and not fly:
            raise ScenarioError(
                "the comparison of a single recording runs it again, which --no-fly forbids; "
                "give two recordings, or leave --no-fly out"
            )
        self._again = b is None
        self._a, self._b = a, b or a
        self._repeats = fly
        self._notes: list[str] = []
        self._saved: dict[int, Checkpoint] = {}
        """Checkpoints of the re-run, at the times of the recording's own checkpoints."""
        self._begins: Both = (None, None)
        if self._again:
            self._note_surroundings()
        else:
            self._notes += _asked_otherwise(a.recording, self._b.recording)
        if since_ns is not None:
            self._begin_at(since_ns)

    def _note_surroundings(self) -> None:
        header = self._a.recording.header
        self._notes += [
            f"results may differ in the last bits: {line}"
            for line in other_fingerprint(header.get("fingerprint", {}), fingerprint())
        ]
        self._notes += changed_since(header, self._a.scenario())

    def _begin_at(self, ns: int) -> None:
        begins = []
        for run in (self._a,) if self._again else (self._a, self._b):
            end = run.recording.end_ns
            if not 0 <= ns < end:
                raise ScenarioError(
                    f"--from {ns / NS_PER_S:g} s is outside {run.recording.source}; give a time "
                    f">= 0 s and before its end at {end / NS_PER_S:g} s"
                )
            found, useless = nearest(run.recording, ns)
            begins.append(found)
            self._notes += useless
        one, other = begins[0], begins[-1]
        self._begins = one, other
        if (None if one is None else one.ns) != (None if other is None else other.ns):
            raise CheckpointError(
                f"before {Tag(ns)}, the nearest checkpoints of the two runs are at different "
                "times; leave --from out, or save checkpoints of both runs at the same times"
            )

    def verdict(self) -> Verdict:
        a = self._a.recording
        other, until = self._run_again() if self._again else self._both()
        mine, theirs = a.up_to(until), other.up_to(until)
        begin = self._begins[0]
        resumed = [int(r.continues.get("ns", 0)) for r in (a, self._b.recording)]
        since = max(resumed) if begin is None else begin.ns
        found = [place for place in differences(mine, theirs) if place.tag.ns >= since]
        ended = failure(a, other)
        visible = found[0] if found else ended
        saved = self._saved if self._again else None
        narrowing = Narrowing(self._a, self._b, self._begins, saved)
        beneath = narrowing.look(visible, until) if self._repeats else Beneath(self._begins)
        first = beneath.place or visible
        endings = RunEnding.of(a), RunEnding.of(other)
        out = Verdict(
            a.source, other.source, Tag(since), Tag(until), first, notes=self._notes,
            endings=endings, undecided=self._undecided(mine, endings),
        )  # fmt: skip
        if first is not None:
            agreed = beneath.agreed or last_before([mine, theirs], first.tag)
            before = beneath.agreed or last_before([mine, theirs], Tag(first.tag.ns))
            around = narrowing.around(beneath.good, before, first.tag) if self._repeats else None
            one, two = (None, None) if around is None else around.before
            out = replace(
                out,
                agreed=agreed,
                fed=fed(first, Teller(mine, one), Teller(theirs, two)),
                drawn=None if around is None else around.drawn,
                visible=visible if first is not visible else None,
                also=_also(first, found),
            )
        self._notes += narrowing.notes
        return out

    def _undecided(self, compared: Recording, endings: tuple[RunEnding, RunEnding]) -> str:
        if self._again:
            run = self._a
            fed = set() if run.live else fed_tracks(compared, run.scenario())
            tracks = compared.tracks.items()
            rows = [len(t) for name, t in tracks if t.spec.deterministic and name not in fed]
            if any(rows):
                return ""
            return "every row was taken from the recording, and none was computed"
        names = (self._a.recording.source, self._b.recording.source)
        early = [f"{n} {e}" for n, e in zip(names, endings, strict=True) if not e.complete]
        return "; ".join(early)

    def _both(self) -> tuple[Recording, int]:
        a, b = self._a.recording, self._b.recording
        untils = [int(r.header["until"]) for r in (a, b)]
        until = min(_ended(a), _ended(b))
        if untils[0] != untils[1] and until == min(untils):
            until -= 1
        return b, until

    def _run_again(self) -> tuple[Recording, int]:
        run, recorded, start = self._a, self._a.recording, self._begins[0]
        ns, end = 0 if start is None else start.ns, _ended(recorded)
        pieces = 1 if run.live else min(16, 1 + recorded.trace_rows // _ROWS_AT_ONCE)
        known = [at for at in run.checkpoints() if ns < at <= end]
        wanted = known[:: 1 + len(known) // _MOST_SAVED]
        try:
            run.check_savable()
        except CheckpointError as error:
            self._notes.append(f"only recorded rows are compared, no saved states: {error}")
            pieces, wanted = 1, []
        last = max(end, end_of(recorded)) if died_of(recorded) else end
        for piece in range(1, pieces + 1):
            stop = last if piece == pieces else ns + (end - ns) * piece // pieces
            at = wanted if piece == pieces else [*wanted, stop]
            repeated = run.repeat(start, stop, at, "running again")
            self._saved.update({one: repeated.kept[one] for one in wanted if one in repeated.kept})
            until = end if repeated.ended_ns < stop or stop == last else min(repeated.ended_ns, end)
            again = repeated.recording
            if died_of(again):
                return again, min(repeated.ended_ns, end)
            if until == end or differences(recorded.up_to(until), again.up_to(until)):
                break
            start = repeated.kept[max(repeated.kept)]
        return again, until


def _also(first: Place, found: list[Place]) -> tuple[Place, ...]:
    return tuple(place for place in found if place is not first and place.tag == first.tag)


def _ended(recording: Recording) -> int:
    if recording.truncated is None and recording.footer is not None:
        return int(recording.footer.get("ended", recording.end_ns))
    return recording.end_ns


def _asked_otherwise(a: Recording, b: Recording) -> list[str]:
    out = []
    for key in ("scenario", "seed", "compile", "fingerprint"):
        for pair in walk(key, a.header.get(key), b.header.get(key)):
            told = not pair.name.startswith(("scenario.origin", "scenario.until"))
            if told and not pair.name.endswith(".about"):  # ``about`` repeats other keys
                name = pair.name.removeprefix("scenario.").removeprefix("parts.")
                out.append(f"the two runs had different settings: {name}: {pair.a} and {pair.b}")
    if a.header.get("source_hash") != b.header.get("source_hash"):
        out.append("the source code of the scenario's functions was different")
    return out[:_MOST_NOTES]


@dataclass(frozen=True)
class Verdict(Judged):
    """The first difference between two runs; ``place`` is ``None`` without a difference."""

    a: str
    b: str
    began: Tag
    ended: Tag
    """The runs were compared from ``began`` to ``ended``."""
    place: Place | None = None
    agreed: Tag | None = None
    """The last tag at which everything agreed; ``None`` if the runs differ at the first tag."""
    fed: Feeding | None = None
    drawn: tuple[list[str], list[str]] | None = None
    """Random streams that each run used after ``agreed`` up to ``place``; ``None`` if not known."""
    visible: Place | None = None
    """The first difference in the recordings, if it comes after ``place``."""
    also: tuple[Place, ...] = ()
    """Other differences at the same tag."""
    notes: list[str] = field(default_factory=list)
    endings: tuple[RunEnding, ...] = ()
    """How each run ended."""
    undecided: str = ""
    """Why the comparison is undecided although no difference was found; empty otherwise."""

    @property
    def equal(self) -> bool:
        return self.place is None

    def _judge(self) -> Outcome:
        if self.place is not None:
            return Outcome.FAILED
        return Outcome.UNDECIDED if self.undecided else Outcome.PASSED

    @property
    def in_words(self) -> str:
        if self.place is not None:
            return f"{self.a} and {self.b} differ first in {self.place.name} at {self.place.tag}"
        return self.undecided or f"{self.a} and {self.b} are equal up to {self.ended}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data: tags as ``{"ns": .., "step": ..}``, doubles with their bits."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.equal,
            "outcome": self._judge().name.lower(),
            "undecided": self.undecided,
            "began": _tag(self.began),
            "ended": _tag(self.ended),
            "endings": [ending.to_json() for ending in self.endings],
            "agreed": _tag(self.agreed),
            "first": None if self.place is None else _place(self.place),
            "fed": None if self.fed is None else _fed(self.fed),
            "drawn": None if self.drawn is None else {"a": self.drawn[0], "b": self.drawn[1]},
            "recorded": None if self.visible is None else _place(self.visible),
            "also": [_place(place) for place in self.also],
            "notes": self.notes,
        }


def _tag(tag: Tag | None) -> dict[str, int] | None:
    return None if tag is None else {"ns": tag.ns, "step": tag.step}


def _place(place: Place) -> dict[str, Any]:
    return {
        "tag": _tag(place.tag),
        "what": place.what,
        "name": place.name,
        "moment": place.moment,
        "initiated": _tag(place.initiated),
        "values": [pair.to_json() for pair in place.pairs],
    }


def _fed(fed: Feeding) -> dict[str, Any]:
    return {
        "at": _tag(fed.at),
        "how": fed.how,
        "equal": fed.equal,
        "inputs": [pair.to_json() for pair in fed.inputs],
        "arrived": {"a": fed.arrived[0], "b": fed.arrived[1]},
        "happened": {"a": fed.happened[0], "b": fed.happened[1]},
    }
