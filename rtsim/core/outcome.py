"""The outcome of a comparison or a run, and a base class for objects that have an outcome."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from rtsim.core.errors import Undecided


class Outcome(Enum):
    """The outcome of a check; the value is the exit status of a command.

    ``docs/verdicts.md`` explains the rules.
    """

    PASSED = 0
    FAILED = 1
    UNDECIDED = 2
    """Neither passed nor failed.

    The environment failed, the host was too slow, or nothing was available for comparison.
    """

    @classmethod
    def of_all(cls, outcomes: Iterable[Outcome]) -> Outcome:
        """Combine outcomes: FAILED if any failed, else UNDECIDED if any is undecided, else PASSED.

        Without any outcome, the result is UNDECIDED.
        """
        found = set(outcomes)
        for worst in (cls.FAILED, cls.UNDECIDED):
            if worst in found:
                return worst
        return cls.PASSED if found else cls.UNDECIDED

    def __bool__(self) -> bool:
        """Return True for PASSED and False for FAILED; raise ``Undecided`` for UNDECIDED."""
        if self is Outcome.UNDECIDED:
            raise Undecided(
                "the outcome is undecided, so it cannot be used as True or False; compare it with "
                "Outcome.UNDECIDED first"
            )
        return self is Outcome.PASSED


class Judged:
    """Base class of objects that have an outcome.

    A subclass implements ``_judge`` and describes the outcome in ``in_words``.  In ``in_words``,
    call ``_judge``; do not read ``outcome``, because reading ``outcome`` sets ``looked``.
    """

    looked = False
    """True after a user has read the outcome: ``outcome``, ``ok``, ``bool()`` or ``assert_ok``."""

    def _judge(self) -> Outcome:
        raise NotImplementedError

    @property
    def outcome(self) -> Outcome:
        object.__setattr__(self, "looked", True)  # the subclass may be a frozen dataclass
        return self._judge()

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def in_words(self) -> str:
        return f"{type(self).__name__}: {self._judge().name.lower()}"

    def __bool__(self) -> bool:
        __tracebackhide__ = True
        if self.outcome is Outcome.UNDECIDED:
            raise Undecided(self.in_words)
        return self.ok

    def assert_ok(self) -> None:
        """Raise :class:`AssertionError` if failed, and :class:`Undecided` if undecided.

        The message is :attr:`in_words`.
        """
        __tracebackhide__ = True
        if self.outcome is Outcome.FAILED:
            raise AssertionError(self.in_words)
        bool(self)
