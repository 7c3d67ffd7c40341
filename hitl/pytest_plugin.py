"""Fixtures for a user's own tests of a controller in C."""

from __future__ import annotations

import pytest

__all__ = ["pytest"]
