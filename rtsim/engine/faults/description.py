"""Read a fault from data: its place, kind, parameters, trigger, duration and seed.

=============  ===========================================================================
``at``         s; alone it is a trigger, else the other triggers start at this time
``every``      s; acts at ``at`` (default: one period after the start) and then every period
``probability``  of an activation at each item (sample, message, byte or frame)
``when``       a condition on signals; acts each time it becomes true
=============  ===========================================================================

Without a trigger the fault begins with the run.  An activation lasts ``duration`` s or ``count``
items.  Without these entries an activation lasts one item (``probability``), while the condition is
true (``when``), or to the end of the run.  ``every`` needs one of these entries, unless the kind
ends by itself.  The fault does not act from ``until`` on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.tag import Period, declared_ns
from rtsim.engine.faults.condition import Condition, parse_condition
from rtsim.engine.faults.kind import WANTED, Fault, FaultError, FaultKind, passes
from rtsim.engine.faults.kinds import COMMON, KINDS

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}\Z")
_TIMES = ("at", "until", "duration")
_LONGEST_SHOWN = 60


def fault_of(given: Mapping[str, Any], place: str = "") -> Fault:
    """Return the fault that the entries of a table describe; ``place`` is ``file:line``.

    Raises :class:`FaultError` with the name of the wrong entry.
    """
    return _Reader(given, place).fault()


class _Reader:
    def __init__(self, given: Mapping[str, Any], place: str) -> None:
        self.given, self.place = dict(given), place

    def fault(self) -> Fault:
        given = self.given
        name = self._text("name", "a unique name, such as name = 'alpha_stuck'")
        if not _NAME.match(name):
            text = f"name {name!r}: write a letter, then letters, digits, _ or -, at most 60 in all"
            raise FaultError.of("name", text)
        kind = self._kind()
        known = (*COMMON, *(p.name for p in kind.parameters), *kind.entries)
        for key in given:
            if key not in known:
                raise FaultError.of(key, str(UnknownName("entry", key, known, kind.name)))
        self._trigger(kind)
        times = {k: self._ns(k) for k in _TIMES}
        if times["until"] is not None and times["until"] <= (times["at"] or 0):
            text = "until is not after at, so the fault would never act; give a later until"
            raise FaultError.of("until", text)
        return Fault(
            name=name,
            where=self._where(kind),
            kind=kind,
            parameters=self._parameters(kind),
            at_ns=times["at"],
            every=self._period("every"),
            probability=self._probability(),
            when=self._condition(),
            until_ns=times["until"],
            duration_ns=times["duration"],
            count=self._count(kind),
            period=self._period("period"),
            seed=self._whole("seed", 0),
            given={k: _plain(v) for k, v in given.items()},
            place=self.place,
        )

    def _kind(self) -> type[FaultKind]:
        name = self._text("kind", "the kind, such as kind = 'offset'")
        if name not in KINDS:
            raise FaultError.of("kind", str(UnknownName("kind", name, KINDS)))
        try:
            return KINDS[name]
        except ScenarioError as error:  # the package that provides this kind cannot be loaded
            raise FaultError.of("kind", str(error)) from None

    def _trigger(self, kind: type[FaultKind]) -> None:
        triggers = [k for k in ("every", "probability", "when") if k in self.given]
        if len(triggers) > 1:
            text = f"{' and '.join(triggers)} are all triggers; give only one of them"
            raise FaultError.of(triggers[1], text)
        lasting = [k for k in ("duration", "count") if k in self.given]
        if len(lasting) > 1:
            raise FaultError.of("count", "both duration and count are given; give only one of them")
        if lasting and (kind.once or kind.has_length):
            instead = "length sets how long it lasts" if kind.has_length else "it acts only once"
            raise FaultError.of(lasting[0], f"{kind.name} takes no {lasting[0]}: {instead}")
        ends = lasting or kind.once or kind.brief or kind.has_length
        if "every" in self.given and not ends:
            raise FaultError.of(
                "every",
                "a fault with every also needs duration (in s) or count (a number of rows, "
                "messages or bytes)",
            )

    def _text(self, key: str, wanted: str) -> str:
        value = self.given.get(key)
        if not isinstance(value, str) or not value.strip():
            raise FaultError.of(key, f"{key} is missing or not a text; give {wanted}")
        return value.strip()

    def _where(self, kind: type[FaultKind]) -> str:
        where = self._text("where", kind.wanted())
        kind.check_where(where)
        return where

    def _parameters(self, kind: type[FaultKind]) -> dict[str, float]:
        out = {}
        for parameter in kind.parameters:
            name, wanted = parameter.name, WANTED[parameter.check]
            if name not in self.given:
                if parameter.needed:
                    text = f"{kind.name} needs {name}: {wanted}"
                    raise FaultError.of("kind", text)
                continue
            value = self.given[name]
            if parameter.check == "seconds":
                out[name] = float(self._ns(name, zero=True) or 0)
            elif not passes(parameter.check, value):
                raise FaultError.of(name, f"{name} = {_shown(value)} is not valid; write {wanted}")
            else:
                out[name] = float(value)
        return out

    def _ns(self, key: str, zero: bool = False) -> int | None:
        if key not in self.given:
            return None
        value = self.given[key]
        wanted = f"write {key} in s" + (", >= 0" if zero or key == "at" else ", > 0")
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
                raise ScenarioError("not a number of seconds")
            ns = declared_ns(value, key)
        except (RtsimError, OverflowError, ValueError) as error:
            raise FaultError.of(
                key, f"{key} = {_shown(value)} is not valid ({error}); {wanted}"
            ) from None
        if ns < 0 or (ns == 0 and not zero and key != "at"):
            raise FaultError.of(key, f"{key} = {_shown(value)} is not valid; {wanted}")
        return ns

    def _period(self, key: str) -> Period | None:
        return None if self._ns(key) is None else Period.of(self.given[key])

    def _probability(self) -> float | None:
        if "probability" not in self.given:
            return None
        value = self.given["probability"]
        if not passes("number", value) or not 0.0 <= value <= 1.0:
            raise FaultError.of(
                "probability",
                f"probability = {_shown(value)} is not valid; write a number from 0 to 1",
            )
        return float(value)

    def _condition(self) -> Condition | None:
        if "when" not in self.given:
            return None
        text = self._text("when", "a condition, such as when = 'f16.alpha > 0.3'")
        try:
            return parse_condition(text)
        except ScenarioError as error:
            raise FaultError.of("when", str(error)) from None

    def _count(self, kind: type[FaultKind]) -> int | None:
        if kind.has_length:
            return int(self.given["length"])
        count = self._whole("count", 1)
        if count is None and (kind.once or kind.brief or "probability" in self.given):
            return None if "duration" in self.given else 1
        return count

    def _whole(self, key: str, least: int) -> int | None:
        value = self.given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise FaultError.of(
                key, f"{key} = {_shown(value)} is not valid; write a whole number >= {least}"
            )
        return value


def _shown(value: object) -> str:
    """Return a short text of ``value``, also of numbers that are too long for ``repr``."""
    try:
        text = repr(value)
    except ValueError:
        return "a very large number"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Fraction) else value
