"""Conformance suites for users' own links to boards; they do not import pytest."""

from hitl.testing.links import check_link

__all__ = ["check_link"]
