"""Beside pyproject.toml for one step: the project's C goes into the wheel, inside of ``hitl``."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FIRMWARE = Path(__file__).parent / "firmware"


class WithFirmware(build_py):
    """Copies ``firmware/`` to ``hitl/firmware/c``: ``hitl.interface.shipped`` looks there."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # it is found in the checkout
        into = Path(self.build_lib) / "hitl" / "firmware" / "c"
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(FIRMWARE, into, ignore=shutil.ignore_patterns("tests", "*.md"))


setup(cmdclass={"build_py": WithFirmware})
