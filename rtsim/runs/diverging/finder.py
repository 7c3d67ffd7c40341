"""Two recordings, or a recording and its re-run: where they part first, and what fed that.

The traces are held side by side first; what they do not show is looked for beneath
(:mod:`rtsim.runs.diverging.narrowing`).
"""

from __future__ import annotations

from dataclasses import replace

from rtsim.core.errors import CheckpointError, RecordingError, ScenarioError
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.record.ending import RunEnding, died_of
from rtsim.record.fingerprint import differences as other_fingerprint
from rtsim.record.fingerprint import fingerprint
from rtsim.record.reading import Recording, what_both_have
from rtsim.record.repeated import end_of
from rtsim.runs.diverging.feeding import Teller, fed
from rtsim.runs.diverging.first import Place, differences, failure, last_before
from rtsim.runs.diverging.flying import RecordedRun, Say
from rtsim.runs.diverging.narrowing import Beneath, Both, Narrowing
from rtsim.runs.diverging.states import walk
from rtsim.runs.diverging.verdict import Verdict
from rtsim.runs.replay import changed_since, fed_tracks
from rtsim.runs.resume import nearest
from rtsim.scenario.scenario import Scenario

_MOST_SAVED = 64
"""So many checkpoints beside a recording are held against its re-run."""
_MOST_NOTES = 20
_ROWS_AT_ONCE = 200_000
"""Rows of a piece that is flown again and compared before the next one."""


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
    """Where ``a`` and ``b`` part first; without ``b``, where ``a`` and its re-run do.

    ``scenarios`` are needed where a recording does not say of what it is.  ``live``: controllers
    that live outside run again instead of being fed.  ``since_ns`` begins at the nearest
    checkpoint before, or at the start.  Without ``fly`` two recordings are only read.  ``say`` is
    told what is being done.  Raises :class:`RtsimError` where something cannot be done.
    """
    for recording in (a,) if b is None else (a, b):
        if not recording.trace_rows:
            why = f": {recording.truncated}" if recording.truncated else ""
            raise RecordingError(
                f"nothing to compare: {recording.source} holds no rows of the trace{why}"
            )
    if b is not None:
        if not {n for n, t in a.tracks.items() if t.spec.deterministic} & b.tracks.keys():
            raise RecordingError(
                f"{a.source} and {b.source} are of different scenarios, and no part of one is in "
                "the other; give two recordings of one scenario"
            )
        a, b, _ = what_both_have(a, b)
    flight = RecordedRun(a, scenarios[0], live, say)
    other = None if b is None else RecordedRun(b, scenarios[1], live, say)
    return _Search(flight, other, fly, since_ns).verdict()


class _Search:
    """One search: the two flights, and what is known of them so far."""

    def __init__(
        self, a: RecordedRun, b: RecordedRun | None, fly: bool, since_ns: int | None
    ) -> None:
        if b is None and not fly:
            raise ScenarioError(
                "one recording alone has to be flown again: give two, or leave --no-fly out"
            )
        self._again = b is None
        self._a, self._b = a, b or a
        self._fly = fly
        self._notes: list[str] = []
        self._saved: dict[int, Checkpoint] = {}
        """Of the re-run, where the recording has checkpoints of its own."""
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
            f"bits are not promised here: {line}"
            for line in other_fingerprint(header.get("fingerprint", {}), fingerprint())
        ]
        self._notes += changed_since(header, self._a.scenario())

    def _begin_at(self, ns: int) -> None:
        begins = []
        for flight in (self._a,) if self._again else (self._a, self._b):
            end = flight.recording.end_ns
            if not 0 <= ns < end:
                raise ScenarioError(
                    f"{flight.recording.source} goes from 0 to {end / NS_PER_S:g} s; give a --from "
                    f"before its end, not {ns / NS_PER_S:g} s"
                )
            found, useless = nearest(flight.recording, ns)
            begins.append(found)
            self._notes += useless
        one, other = begins[0], begins[-1]
        self._begins = one, other
        if (None if one is None else one.ns) != (None if other is None else other.ns):
            raise CheckpointError(
                f"the nearest checkpoints before {Tag(ns)} are of two times; leave --from out, or "
                "keep checkpoints of both runs at the same times"
            )

    def verdict(self) -> Verdict:
        a = self._a.recording
        other, until = self._flown_again() if self._again else self._both()
        mine, theirs = a.up_to(until), other.up_to(until)
        begin = self._begins[0]
        since = int(a.continues.get("ns", 0)) if begin is None else begin.ns
        found = [place for place in differences(mine, theirs) if place.tag.ns >= since]
        ended = failure(a, other)
        visible = found[0] if found else ended
        saved = self._saved if self._again else None
        narrowing = Narrowing(self._a, self._b, self._begins, saved)
        beneath = narrowing.look(visible, until) if self._fly else Beneath(self._begins)
        first = beneath.place or visible
        endings = RunEnding.of(a), RunEnding.of(other)
        out = Verdict(
            a.source, other.source, Tag(since), Tag(until), first, notes=self._notes,
            endings=endings, undecided=self._undecided(mine, endings),
        )  # fmt: skip
        if first is not None:
            agreed = beneath.agreed or last_before([mine, theirs], first.tag)
            before = beneath.agreed or last_before([mine, theirs], Tag(first.tag.ns))
            around = narrowing.around(beneath.good, before, first.tag) if self._fly else None
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
        """Why equal rows say nothing of the whole run; empty where they say all that was asked."""
        if self._again:
            flight = self._a
            fed = set() if flight.live else fed_tracks(compared, flight.scenario())
            tracks = compared.tracks.items()
            rows = [len(t) for name, t in tracks if t.spec.deterministic and name not in fed]
            return "" if any(rows) else "every row was fed from the recording, and none computed"
        names = (self._a.recording.source, self._b.recording.source)
        early = [f"{n} {e}" for n, e in zip(names, endings, strict=True) if not e.complete]
        return "; ".join(early)

    def _both(self) -> tuple[Recording, int]:
        """Up to where both came; where one was to end earlier, its last tag is its own."""
        a, b = self._a.recording, self._b.recording
        untils = [int(r.header["until"]) for r in (a, b)]
        until = min(_ended(a), _ended(b))
        if untils[0] != untils[1] and until == min(untils):
            until -= 1
        return b, until

    def _flown_again(self) -> tuple[Recording, int]:
        """Piece by piece until something differs; returns what was flown, and up to where."""
        flight, recorded, start = self._a, self._a.recording, self._begins[0]
        ns, end = 0 if start is None else start.ns, _ended(recorded)
        pieces = 1 if flight.live else min(16, 1 + recorded.trace_rows // _ROWS_AT_ONCE)
        known = [at for at in flight.checkpoints() if ns < at <= end]
        wanted = known[:: 1 + len(known) // _MOST_SAVED]
        try:
            flight.check_savable()
        except CheckpointError as error:
            self._notes.append(f"only the trace is compared: {error}")
            pieces, wanted = 1, []
        last = max(end, end_of(recorded)) if died_of(recorded) else end
        for piece in range(1, pieces + 1):
            stop = last if piece == pieces else ns + (end - ns) * piece // pieces
            at = wanted if piece == pieces else [*wanted, stop]
            flown = flight.fly(start, stop, at, "flying again")
            self._saved.update({one: flown.kept[one] for one in wanted if one in flown.kept})
            until = end if flown.ended_ns < stop or stop == last else min(flown.ended_ns, end)
            again = flown.recording
            if died_of(again):
                return again, min(flown.ended_ns, end)
            if until == end or differences(recorded.up_to(until), again.up_to(until)):
                break
            start = flown.kept[max(flown.kept)]
        return again, until


def _also(first: Place, found: list[Place]) -> tuple[Place, ...]:
    return tuple(place for place in found if place is not first and place.tag == first.tag)


def _ended(recording: Recording) -> int:
    """The last tag (ns) that it holds as a whole."""
    if recording.truncated is None and recording.footer is not None:
        return int(recording.footer.get("ended", recording.end_ns))
    return recording.end_ns


def _asked_otherwise(a: Recording, b: Recording) -> list[str]:
    """In words, what the headers of two recordings say otherwise of their runs."""
    out = []
    for key in ("scenario", "seed", "compile", "fingerprint"):
        for pair in walk(key, a.header.get(key), b.header.get(key)):
            if not pair.name.startswith(("scenario.origin", "scenario.until")):
                name = pair.name.removeprefix("scenario.")
                out.append(f"the two were not asked the same: {name}: {pair.a}, and {pair.b}")
    if a.header.get("source_hash") != b.header.get("source_hash"):
        out.append("the sources of the scenario's functions were not the same")
    return out[:_MOST_NOTES]
