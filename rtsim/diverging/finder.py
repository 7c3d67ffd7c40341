"""Two recordings, or a recording and its re-run: where they part first, and what fed that.

The traces are held side by side first.  What they do not show - memories, streams, messages in
flight - is in checkpoints: the last pair that agrees is found by bisection, and from there both
fly again, keeping some states on the way, again and again between the last two that agree and
differ, until no tag lies between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rtsim.checkpoint.file import Checkpoint
from rtsim.diverging.feeding import Fed, Teller, fed
from rtsim.diverging.first import Place, differences, last_before
from rtsim.diverging.flying import Flight, Say
from rtsim.diverging.states import drawn, first_apart, part_of, parting, walk
from rtsim.diverging.values import Pair
from rtsim.errors import CheckpointError, RecordingError, RtsimError, ScenarioError
from rtsim.record.fingerprint import differences as other_fingerprint
from rtsim.record.fingerprint import fingerprint
from rtsim.record.reading import Recording, what_both_have
from rtsim.replay import changed_since
from rtsim.resuming import nearest
from rtsim.scenario import Scenario
from rtsim.tag import Tag

_STATES = 64
"""Kept on the way of one flight: each round narrows the stretch by so much."""
_MOST_NOTES = 20
_ROWS_AT_ONCE = 200_000
"""Rows of a piece that is flown again and compared before the next one."""


@dataclass(frozen=True)
class Verdict:
    """Where two runs part; ``place`` is ``None`` where they do not."""

    a: str
    b: str
    began: Tag
    ended: Tag
    """Compared from and up to here."""
    place: Place | None = None
    agreed: Tag | None = None
    """The last tag at which all agreed; ``None`` where they part at the first one."""
    fed: Fed | None = None
    drawn: tuple[list[str], list[str]] | None = None
    """Random streams that were drawn from at the tag, in either run; ``None``: not known."""
    visible: Place | None = None
    """Where a recording shows it first, where that is later."""
    also: tuple[Place, ...] = ()
    """What else parts at the same tag."""
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return self.place is None


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
            raise RecordingError(f"{recording.source} holds no rows of a trace: nothing to compare")
    return _Search(a, b, scenarios, live, since_ns, fly, say).verdict()


class _Search:
    """One search: the two flights, and what is known of them so far."""

    def __init__(
        self,
        a: Recording,
        b: Recording | None,
        scenarios: tuple[Scenario | None, Scenario | None],
        live: bool,
        since_ns: int | None,
        fly: bool,
        say: Say | None,
    ) -> None:
        self._again = b is None
        if self._again and not fly:
            raise ScenarioError("one recording alone has to be flown again; give two, or fly it")
        self._notes: list[str] = []
        self._fly = fly
        self._begins: _Both = (None, None)
        if b is not None:
            a, b, _ = what_both_have(a, b)
            self._notes += _said_otherwise(a, b)
        self._a = Flight(a, scenarios[0], live, say)
        self._b = Flight(a if b is None else b, scenarios[0 if b is None else 1], live, say)
        self._states: dict[int, Checkpoint] = {}
        """Of the re-run, where the recording has checkpoints of its own."""
        if self._again:
            self._note_surroundings()
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
            found, useless = nearest(flight.recording, ns)
            begins.append(found)
            self._notes += useless
        self._begins = (begins[0], begins[-1])

    # -- the traces --------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        a = self._a.recording
        other, until = self._flown_again() if self._again else self._both()
        mine, theirs = a.up_to(until), other.up_to(until)
        found = self._since(differences(mine, theirs))
        begin = self._begins[0]
        began = Tag(int(a.continues.get("ns", 0))) if begin is None else begin.tag
        visible = found[0] if found else None
        good, hidden = self._begins, None
        if self._fly:
            good, hidden = self._beneath(visible, until)
        first = hidden or visible
        out = Verdict(a.source, other.source, began, Tag(until), first, notes=self._notes)
        if first is None:
            return out
        agreed = last_before([mine, theirs], first.tag)
        tellers, streams = self._around(good, first.tag, mine, theirs)
        return replace(
            out,
            agreed=agreed,
            fed=fed(first, *tellers),
            drawn=streams,
            visible=visible if hidden is not None else None,
            also=tuple(p for p in found if p is not first and p.tag == first.tag),
        )

    def _since(self, found: list[Place]) -> list[Place]:
        begin = self._begins[0]
        return found if begin is None else [p for p in found if p.tag.ns >= begin.ns]

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
        wanted = known[:: 1 + len(known) // _STATES]
        try:
            flight.check_savable()
        except CheckpointError as error:
            self._notes.append(f"only the trace is compared: {error}")
            pieces, wanted = 1, []
        for piece in range(1, pieces + 1):
            stop = end if piece == pieces else ns + (end - ns) * piece // pieces
            after = -1 if start is None else start.ns
            at = [one for one in wanted if after < one <= stop]
            flown = flight.fly(start, stop, at if stop == end else [*at, stop], "flying again")
            self._states.update({one: flown.kept[one] for one in at if one in flown.kept})
            until = end if stop == end else min(flown.ended_ns, end)
            again = flown.recording
            if stop == end or differences(recorded.up_to(until), again.up_to(until)):
                break
            start = flown.kept[max(flown.kept)]
        return again, until

    # -- what no trace shows -----------------------------------------------------------------------

    def _beneath(self, visible: Place | None, until: int) -> tuple[_Both, Place | None]:
        """The last states known to agree, and where states part before a recording shows it."""
        end = until + 1 if visible is None else visible.tag.ns
        begin = self._begins[0]
        times = [ns for ns in self._in_common() if (0 if begin is None else begin.ns) < ns < end]
        pairs: dict[int, _Both] = {}

        def agree(ns: int) -> bool:
            one, other = pairs[ns] = self._pair(ns)
            return one is None or other is None or not parting(one, other)

        apart = first_apart(times, agree)
        good = self._begins
        for ns in reversed(times[:apart]):
            found = pairs.get(ns) or self._pair(ns)
            if None not in found:
                good = found
                break
        bad = times[apart] if apart < len(times) else None
        if bad is None and visible is None:
            return good, None
        hidden = None
        try:
            hidden = self._narrowed(good, end if bad is None else bad)
        except RtsimError as error:
            self._notes.append(f"what no recording shows is not known: {error}")
        if hidden is None and bad is not None:
            one, other = pairs[bad]
            assert one is not None
            assert other is not None
            since = "the start" if good[0] is None else str(good[0].tag)
            self._notes.append(
                f"the states part somewhere between {since} and {Tag(bad)}, and not again when it "
                "is flown from there"
            )
            hidden = _memory(Tag(bad), parting(one, other))
        if hidden is not None and visible is not None and hidden.tag.ns >= visible.tag.ns:
            return good, None
        return good, hidden

    def _in_common(self) -> list[int]:
        if self._again:
            return sorted(self._states)
        return sorted(set(self._a.checkpoints()) & set(self._b.checkpoints()))

    def _pair(self, ns: int) -> _Both:
        return self._a.opened(ns), self._states[ns] if self._again else self._b.opened(ns)

    def _narrowed(self, good: _Both, end: int) -> Place | None:
        """Fly both from ``good``; the first tag before ``end`` (ns) or at it where states part."""
        lows = good
        while True:
            low = 0 if lows[0] is None else lows[0].ns
            at = {low + 1, *(low + (end - low) * i // _STATES for i in range(1, _STATES + 1))}
            what = f"looking between {Tag(low).seconds:g} and {Tag(end).seconds:g} s"
            kept = [
                flight.fly(start, end, sorted(ns for ns in at if ns > low), what).kept
                for flight, start in zip((self._a, self._b), lows, strict=True)
            ]
            times = sorted(kept[0].keys() & kept[1].keys())
            apart = first_apart(times, lambda ns: not parting(kept[0][ns], kept[1][ns]))  # noqa: B023
            if apart == len(times):
                return None
            ones = (kept[0][times[apart]], kept[1][times[apart]])
            if apart == 0:
                return _memory(ones[0].tag, parting(*ones))
            lows = (kept[0][times[apart - 1]], kept[1][times[apart - 1]])
            end = times[apart]

    def _around(
        self, good: _Both, tag: Tag, a: Recording, b: Recording
    ) -> tuple[tuple[Teller, Teller], tuple[list[str], list[str]] | None]:
        """Both runs with their states around ``tag``, and the streams that were drawn from there.

        They are flown again from ``good``; a re-run and its recording in one flight.
        """
        without = Teller(a), Teller(b)
        if not self._fly:
            return without, None
        before = last_before([a, b], Tag(tag.ns))
        ns = 0 if before is None else before.ns
        found: list[tuple[Checkpoint | None, list[str]]] = []
        for flight, start in list(zip((self._a, self._b), good, strict=True))[: 2 - self._again]:
            try:
                kept = flight.fly(start, tag.ns, [ns, tag.ns], "looking at what fed it").kept
            except RtsimError as error:
                self._notes.append(f"random streams are not known: {error}")
                return without, None
            then = kept.get(ns) or (start if start is not None and start.ns == ns else None)
            if tag.ns not in kept:
                if tag.ns:
                    return without, None
                found.append((then, []))
                continue
            found.append((then, drawn(then, kept[tag.ns])))
        (first, mine), (second, theirs) = found[0], found[-1]
        return (Teller(a, first), Teller(b, second)), (mine, theirs)


_Both: TypeAlias = tuple[Checkpoint | None, Checkpoint | None]


def _memory(tag: Tag, pairs: list[Pair]) -> Place:
    """Where two states part; named for the part that holds most of it, streams and counts last."""
    kinds = {"plants": 0, "tasks": 1, "ports": 2}
    path = min(pairs, key=lambda pair: kinds.get(part_of(pair.name)[0], 3)).name
    kind, name = part_of(path)
    return Place(tag, "memory", name if kind in kinds else kind, "state", tuple(pairs))


def _ended(recording: Recording) -> int:
    """The last tag (ns) that it holds as a whole."""
    if recording.truncated is None and recording.footer is not None:
        return int(recording.footer.get("ended", recording.end_ns))
    return recording.end_ns


def _said_otherwise(a: Recording, b: Recording) -> list[str]:
    """In words, what the headers of two recordings say otherwise of their runs."""
    out = []
    for key in ("scenario", "seed", "compile", "source_hash", "fingerprint"):
        for pair in walk(key, a.header.get(key), b.header.get(key)):
            if not pair.name.startswith(("scenario.origin", "scenario.until")):
                name = pair.name.removeprefix("scenario.")
                out.append(f"the two were not asked the same: {name}: {pair.a}, and {pair.b}")
    return out[:_MOST_NOTES]
