"""Three steps of the build that pyproject.toml cannot express.

The project's C goes into the wheel, inside of ``hitl``. An editable installation is the path of the
checkout (docs/decisions/207-editors.md). The addresses of the repository go into the metadata, if
they are known where the wheel is built.
"""

import os
import re
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
    """Editable installation by a path, because editors do not run an import hook.

    setuptools writes a path if the packages lie in one folder by name.  A wheel with this name of
    the folder would lack the data files.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.package_dir = {"": "."}


def repository() -> str:
    """The address of the repository, as GitHub's workflows state it; "" elsewhere."""
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else ""


def project_urls(address: str) -> dict[str, str]:
    """The links that a package index shows beside the description."""
    if not address:
        return {}
    return {
        "Source": address,
        "Documentation": f"{address}/blob/main/docs/index.md",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
        "Security": f"{address}/blob/main/SECURITY.md",
    }


def description(readme: str, address: str) -> str:
    """README.md with links that also work on the page of a package index."""
    if not address:
        return readme
    pictures = re.sub(r"(!\[[^\]]*\]\()(?=docs/)", rf"\g<1>{address}/raw/main/", readme)
    return re.sub(r"(\[[^\]]*\]\()(?![a-z]+:|#)", rf"\g<1>{address}/blob/main/", pictures)


if __name__ == "__main__":
    setup(
        cmdclass={"build_py": WithFirmware, "editable_wheel": AsPath},
        project_urls=project_urls(repository()),
        long_description=description(
            (HERE / "README.md").read_text(encoding="utf-8"), repository()
        ),
        long_description_content_type="text/markdown",
    )
