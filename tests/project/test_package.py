"""The package's face: the names it offers exist, and cost nothing until they are used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

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


FACES = ("core", "equations", "components", "scenario", "runs")


@pytest.mark.parametrize("package", [f"rtsim.{name}" for name in FACES])
def test_each_package_offers_what_it_has_and_no_name_of_a_module_of_its_own(package: str) -> None:
    """A name that is a module's too is the module as soon as somebody has imported it."""
    found = import_module(package)
    modules = {path.stem for path in Path(str(found.__file__)).parent.iterdir()}
    for name in found.__all__:
        assert getattr(found, name) is not None
        assert name not in modules
