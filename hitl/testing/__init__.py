"""Conformance suites for users' own links and boards; they do not import pytest."""

from hitl.testing.boards import check_board, check_link

__all__ = ["check_board", "check_link"]
