"""Suites for users' own parts in the loop; none of it imports pytest."""

from hitl.testing.links import check_link

__all__ = ["check_link"]
