"""Beside pyproject.toml for one step: the project's C goes into the wheel, inside of ``hitl``."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


def copied(packages: Path) -> None:
    """``firmware/`` to ``hitl/firmware/c``, where ``hitl.interface.shipped`` looks for it."""
    into = packages / "hitl" / "firmware" / "c"
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(HERE / "firmware", into, ignore=shutil.ignore_patterns("tests", "*.md"))


class WithFirmware(build_py):
    """An editable installation finds it in the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            copied(Path(self.build_lib))


if __name__ == "__main__":
    setup(cmdclass={"build_py": WithFirmware})
