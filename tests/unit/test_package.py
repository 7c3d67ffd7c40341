"""The package's face: the names it offers exist, and cost nothing until they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rtsim


def test_every_name_that_is_offered_exists() -> None:
    for name in rtsim.__all__:
        assert getattr(rtsim, name) is not None
    assert set(rtsim.__all__) <= set(dir(rtsim))
    with pytest.raises(AttributeError, match="no attribute 'Skenario'"):
        getattr(rtsim, "Skenario")  # noqa: B009


def test_importing_it_loads_no_compiler() -> None:
    code = "import sys, rtsim; sys.exit('numba' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
