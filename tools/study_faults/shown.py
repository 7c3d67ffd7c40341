"""What was shown, check by check, and the table of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rtsim.cli.terminal import Column, console, print_table

_TABLE = (Column("point"), Column("what"), Column("found"), Column("verdict"))


@dataclass(frozen=True)
class Check:
    """One comparison: what was found, and what was expected."""

    point: str
    what: str
    found: str
    wanted: str

    @property
    def ok(self) -> bool:
        return self.found == self.wanted


@dataclass
class Shown:
    """All checks so far; each is printed as soon as it is known."""

    checks: list[Check] = field(default_factory=list)
    point: str = ""

    def check(self, what: str, found: object, wanted: object) -> bool:
        """Compare the texts of two values; return whether they are equal."""
        one = Check(self.point, what, str(found), str(wanted))
        self.checks.append(one)
        expected = "" if one.ok else f", expected {one.wanted}"
        print(f"{one.point}  {what}: {one.found}{expected}", flush=True)
        return one.ok

    @property
    def failed(self) -> int:
        """The number of checks that failed."""
        return sum(not one.ok for one in self.checks)

    def print(self) -> None:
        """Print the table of all checks."""
        rows = [
            (c.point, c.what, c.found, "passed" if c.ok else f"FAILED: expected {c.wanted}")
            for c in self.checks
        ]
        print_table(console(), "what was shown", _TABLE, rows)
        print(f"{len(self.checks)} checks, {self.failed} failed")
