"""The outcome of a comparison or of a run, and the base class of every object that has one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from rtsim.core.errors import Undecided


class Outcome(Enum):
    """The outcome of a comparison; its value is the exit status of the command.

    ``docs/verdicts.md`` explains the rules.
    """

    PASSED = 0
    FAILED = 1
    UNDECIDED = 2
    """Neither passed nor failed: the environment failed, the host was too slow, or there was
    nothing to compare."""

    @classmethod
    def of_all(cls, outcomes: Iterable[Outcome]) -> Outcome:
        """Return FAILED if any failed; else UNDECIDED if any is undecided or none is given."""
        found = set(outcomes)
        for worst in (cls.FAILED, cls.UNDECIDED):
            if worst in found:
                return worst
        return cls.PASSED if found else cls.UNDECIDED

    def __bool__(self) -> bool:
        """Return True for PASSED and False for FAILED; raise :class:`Undecided` otherwise."""
        if self is Outcome.UNDECIDED:
            raise Undecided("the outcome is undecided, which is neither true nor false")
        return self is Outcome.PASSED


class Judged:
    """An object with an outcome, which is also its truth value.

    A subclass computes its outcome in ``_judge`` and describes it in ``in_words``.  It uses
    ``_judge`` for its own texts, so that ``looked`` says whether a user asked for the outcome.
    """

    looked = False
    """True after somebody asked for the outcome: ``outcome``, ``ok``, ``bool()``, ``assert_ok``."""

    def _judge(self) -> Outcome:
        raise NotImplementedError

    @property
    def outcome(self) -> Outcome:
        """Passed, failed or undecided."""
        object.__setattr__(self, "looked", True)  # also of a frozen dataclass
        return self._judge()

    @property
    def ok(self) -> bool:
        """True if the outcome is passed."""
        return self.outcome is Outcome.PASSED

    @property
    def in_words(self) -> str:
        """A text that names the outcome and its reason."""
        return f"{type(self).__name__}: {self._judge().name.lower()}"

    def __bool__(self) -> bool:
        """Return True if passed and False if failed; raise :class:`Undecided` otherwise."""
        __tracebackhide__ = True
        if self.outcome is Outcome.UNDECIDED:
            raise Undecided(self.in_words)
        return self.ok

    def assert_ok(self) -> None:
        """Raise :class:`AssertionError` if the outcome is failed, :class:`Undecided` if undecided.

        The message is :attr:`in_words`.
        """
        __tracebackhide__ = True
        if self.outcome is Outcome.FAILED:
            raise AssertionError(self.in_words)
        bool(self)
