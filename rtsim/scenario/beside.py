"""Import the modules that lie beside a user's Python file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import invalidate_caches
from pathlib import Path

from rtsim.core.read_files import Signature, signature

_found: set[str] = set()
"""Names of the modules that Python finds only in the folder of the file."""

_imported: dict[Path, dict[str, tuple[Path, Signature | None]]] = {}
"""For each file that was loaded: the modules whose import it caused, as :func:`imported_by`."""


def imported_by(path: Path) -> dict[Path, Signature | None]:
    """Return the files of modules that the file ``path`` imported and that Python still holds.

    Python reads such a file once, so a later load of ``path`` does not open it again.  Each has
    its signature at the time of the import.
    """
    found = _imported.get(path.resolve(), {})
    return dict(one for name, one in found.items() if name in sys.modules)


def forget_beside() -> None:
    """Forget the modules beside the file that was loaded last.

    Python keeps a module by its name.  Another file can have a module of the same name beside it,
    and the text of a module can have changed since.
    """
    while _found:
        sys.modules.pop(_found.pop(), None)
    invalidate_caches()


@contextmanager
def imports_beside(path: Path | None) -> Iterator[None]:
    """Find modules in the folder of the file ``path`` first, as Python does for a script.

    The folder is on the path only meanwhile.
    """
    if path is None:
        yield
        return
    folder = str(path.resolve().parent)
    before = set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)
        new = sys.modules.keys() - before
        imported = _imported.setdefault(path.resolve(), {})
        for name in new:
            if file := getattr(sys.modules.get(name), "__file__", None):
                imported[name] = Path(file), signature(file)
        _found.update(name for name in new if _is_beside(name))


def _is_beside(name: str) -> bool:
    """Return whether a module is no longer found, or another one is, without the folder."""
    package = name.partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and file != _origin(package)


def _origin(name: str) -> str | None:
    """Return the file of a module as Python would find it now."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec.origin
    return None
