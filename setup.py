"""Beside pyproject.toml for two steps: the project's C goes into the wheel, inside of ``hitl``, and
an editable installation is the path of the checkout (docs/decisions/xxx-editors.md)."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

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


class AsPath(editable_wheel):
    """setuptools writes a path if the packages lie in one folder by name, and else an import hook,
    which editors do not run.  A wheel with this name of the folder would lack the data files."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.package_dir = {"": "."}


if __name__ == "__main__":
    setup(cmdclass={"build_py": WithFirmware, "editable_wheel": AsPath})
