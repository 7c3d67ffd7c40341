"""The root ``conftest.py`` runs the pages of ``docs/``, many in one process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = """\
```python file=motor.py
FLUX = {flux}
```

```python
from motor import FLUX

assert FLUX == {flux}
```
"""


def test_pages_that_save_a_module_of_one_name_import_their_own(tmp_path: Path) -> None:
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "docs").mkdir()
    for flux in (1, 2):
        (tmp_path / "docs" / f"page{flux}.md").write_text(PAGE.format(flux=flux))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "docs"],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests/helpers")))},
    )  # fmt: skip
    assert "4 passed" in done.stdout, done.stdout + done.stderr
