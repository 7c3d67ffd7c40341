"""Unpack FMUs safely, and check their description before a library reads it.

An FMU is a ZIP archive with a description in XML and with binaries. A description with a document
type is rejected, because FMI needs none and its entities could expand to any size.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath
from xml.parsers import expat

from rtsim.core.cache import cache_folder, prune
from rtsim.core.errors import ScenarioError
from rtsim.core.raised import in_words

DESCRIPTION = "modelDescription.xml"
READ = (DESCRIPTION, "sources/buildDescription.xml")
"""The descriptions that FMPy reads."""
MOST_BYTES = 4 << 30
"""Greatest size of all unpacked files, bytes."""
MOST_FILES = 100_000
MOST_XML = 256 << 20
"""Greatest size of the description, bytes."""


def digest_of(path: Path) -> str:
    """Return the SHA-256 of the file at ``path``; raise :class:`ScenarioError` if unreadable."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ScenarioError(f"cannot read the FMU {path}: {error.strerror}") from None


def unpacked(path: Path, digest: str) -> Path:
    """Return a folder with the files of the FMU at ``path``, whose hash is ``digest``.

    The folder is in rtsim's cache; only the first use of an FMU unpacks the file. Raises
    :class:`ScenarioError` if a name in the archive points outside of the folder, if the files are
    too large or damaged, or if the file is not an FMU.
    """
    folder = cache_folder() / "fmu" / digest[:32]
    if (folder / DESCRIPTION).is_file():
        return folder
    try:
        with zipfile.ZipFile(path) as archive:
            files = _checked(path, archive)
            folder.parent.mkdir(parents=True, exist_ok=True)
            prune(folder.parent)
            part = Path(tempfile.mkdtemp(suffix=".part", dir=folder.parent))
            try:
                for info, name in files:
                    _write(archive, info, part / name)
                for one in READ:
                    if (part / one).is_file():
                        check_xml(f"{one} of {path}", (part / one).read_bytes())
                _publish(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except zipfile.BadZipFile as error:
        if path.read_bytes()[:2] == b"PK":
            raise ScenarioError(f"{path} is damaged ({error}); copy the FMU again") from None
        raise ScenarioError(f"{path} is not an FMU, which is a ZIP archive: {error}") from None
    except (OSError, RuntimeError, NotImplementedError) as error:
        raise ScenarioError(f"cannot unpack {path}: {error}") from None
    except ScenarioError:
        raise
    except Exception as error:  # each decompressor has an error of its own
        raise ScenarioError(
            f"cannot unpack {path}, because a file in the archive is damaged: {in_words(error)}; "
            "copy the FMU again"
        ) from None
    return folder


def _publish(part: Path, folder: Path) -> None:
    """Rename the complete folder ``part`` to ``folder``, unless another process was first."""
    try:
        part.rename(folder)
    except OSError:
        if (folder / DESCRIPTION).is_file():
            return
        shutil.rmtree(folder)  # an incomplete folder
        part.rename(folder)


def _checked(path: Path, archive: zipfile.ZipFile) -> list[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Return the files of the archive; raise :class:`ScenarioError` for a dangerous one."""
    infos = archive.infolist()
    if len(infos) > MOST_FILES or sum(one.file_size for one in infos) > MOST_BYTES:
        raise ScenarioError(
            f"{path} unpacks to {len(infos)} files with {sum(i.file_size for i in infos)} bytes; "
            f"at most {MOST_FILES} files with {MOST_BYTES} bytes are unpacked"
        )
    files = []
    for info in infos:
        raw = info.orig_filename
        name = PurePosixPath(raw)
        link = info.external_attr >> 28 == 0o12
        wrong = "\\" in raw or ":" in raw or "\0" in raw or ".." in name.parts
        if link or wrong or name.is_absolute() or not name.parts:
            raise ScenarioError(
                f"{path} contains {raw!r}, which is outside of the FMU's own folder or is a link; "
                "nothing was unpacked; do not use this file"
            )
        if not info.is_dir():
            files.append((info, name))
    names = Counter(name for _, name in files)
    if twice := [name for name, many in names.items() if many > 1]:
        raise ScenarioError(f"{path} contains two files with the name {twice[0]}")
    if PurePosixPath(DESCRIPTION) not in names:
        raise ScenarioError(f"{path} is not an FMU, because it contains no {DESCRIPTION}")
    for info, inner in files:
        if str(inner) in READ and info.file_size > MOST_XML:
            raise ScenarioError(f"{inner} of {path} has more than {MOST_XML} bytes")
    return files


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(info) as source, target.open("xb") as out:
        shutil.copyfileobj(source, out)
    if "binaries" in target.parts:
        os.chmod(target, 0o755)


def check_xml(what: str, data: bytes) -> None:
    """Raise :class:`ScenarioError` if ``data`` is not XML, or declares a document type.

    ``what`` names the file in the error.
    """
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise ScenarioError(
            f"{what} declares a document type (DOCTYPE), with which a small file "
            "can fill the memory; FMI needs none, so this file is not read"
        )

    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ScenarioError(f"{what} is not XML: {error}") from None
