"""Export of a plant or a loop: as an FMU, or as a C header and library."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable, Sequence
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np

from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.extras import installed
from rtsim.equations.compiling import Source, portable_code
from rtsim.equations.machine_code import write_at_once
from rtsim.fmi.description import Description, Kind, fmi2, fmi3
from rtsim.fmi.frozen import Frozen, frozen
from rtsim.fmi.image import Words
from rtsim.fmi.object_code import chosen, library, this_system, universal
from rtsim.fmi.operations import OPERATE, operate
from rtsim.fmi.program import identifier
from rtsim.scenario.scenario import Scenario

VERSIONS = {"2.0": (fmi2, "fmi2.c"), "3.0": (fmi3, "fmi3.c")}
"""Versions of FMI: the function that writes modelDescription.xml, and the C shell."""
_FUNCTIONS = ("new", "free", "reset", "set", "get", "run")
"""Names of the functions in ``c/plain.h``; a variable with such a name gets a number."""
_STAMP = (1980, 1, 1, 0, 0, 0)
"""The time of all files in an FMU, so that equal models give equal files."""


def export_fmu(
    scenario: Scenario,
    path: Path,
    *,
    plant: str = "",
    version: str = "3.0",
    systems: Sequence[str] = (),
) -> Description:
    """Write an FMU of a plant, or of the whole scenario if ``plant`` is empty, to ``path``.

    ``systems`` are names of :data:`rtsim.fmi.object_code.TARGETS`; the default are all of them.
    Returns the description of the FMU. Raises :class:`ScenarioError` for everything that cannot be
    exported.
    """
    if version not in VERSIONS:
        raise ScenarioError(f"FMI {version} is not known; give {' or '.join(VERSIONS)}")
    write, shell = VERSIONS[version]
    targets = chosen(systems)
    installed("ziglang", "fmi", "the export of an FMU")
    model = frozen(scenario, plant)
    code = _Code(model)
    description = _description(model, code.digest(version))
    sources = code.sources(description.token, ("model.h", "model.c", shell))
    contents = {"modelDescription.xml": write(description)}
    built: dict[str, list[bytes]] = {}
    for target in targets:
        folder = target.name if version == "3.0" else target.fmi2
        name = f"binaries/{folder}/{description.identifier}{target.suffix}"
        built.setdefault(name, []).append(
            library(target, code.texts, code.renamed, sources, description.identifier)
        )
    for name, parts in built.items():
        contents[name] = parts[0] if len(parts) == 1 else universal(parts)
    write_at_once(path, _archive(contents))
    return description


def export_c(
    scenario: Scenario, folder: Path, *, plant: str = "", systems: Sequence[str] = ()
) -> list[Path]:
    """Write a C header and a library for each system into ``folder``; return all files.

    The default for ``systems`` is this system. See :func:`export_fmu` for the other arguments.
    """
    targets = chosen(systems or (this_system(),))
    installed("ziglang", "fmi", "the export of a library")
    model = frozen(scenario, plant)
    code = _Code(model)
    description = _description(model, code.digest("c"))
    name = description.identifier
    header = plain_header(description)
    shell = _shell("plain.c").replace("model_name_", f"{name}_")
    sources = code.sources(description.token, ("model.h", "model.c"))
    sources |= {"plain.c": shell.replace("plain.h", f"{name}.h"), f"{name}.h": header}
    found = {folder / f"{name}.h": header.encode()}
    for target in targets:
        at = folder if len(targets) == 1 else folder / target.name
        made = library(target, code.texts, code.renamed, sources, name)
        found[at / f"{name}{target.suffix}"] = made
    for file, data in found.items():
        write_at_once(file, data)
    return list(found)


def _description(model: Frozen, token: str) -> Description:
    identifier = re.sub(r"\W", "_", model.name)
    if not identifier or identifier[0].isdigit():
        identifier = f"model_{identifier}"
    return Description(
        model.name, identifier, token, model.variables, model.exchange, model.step, model.until,
        model.text,
    )  # fmt: skip


def _shell(name: str) -> str:
    return (files("rtsim.fmi") / "c" / name).read_text()


def _archive(contents: dict[str, bytes]) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _STAMP), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _portable(source: Source) -> tuple[str, str, str]:
    try:
        return portable_code(source)
    except ModelError as error:
        if not source.plain.__module__.startswith("rtsim.solve"):
            raise
        raise ScenarioError(
            f"the solver with the function {source.plain.__name__} cannot be exported, because its "
            "code needs numba's runtime; choose an explicit solver, such as rk4 or dp54"
        ) from error


class _Code:
    """The compiled functions of a model, and its data as C."""

    def __init__(self, model: Frozen) -> None:
        self._model = model
        found = [_portable(source) for source in model.image.sources]
        text, handle, entry = portable_code(Source(operate, OPERATE, False))
        self._handles = [one[1] for one in found]
        self.texts = list({one[1]: one[0] for one in [*found, (text, handle, entry)]}.values())
        self.renamed = {entry: "model_operate"}

    def digest(self, *also: str) -> str:
        """Return a token that identifies the code, the data and the variables."""
        digest = hashlib.sha256()
        for text in (*also, *self._handles, repr(self._model.variables), self._model.name):
            digest.update(text.encode())
        digest.update(self._model.image.words.tobytes())
        found = digest.hexdigest()
        return f"{{{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:32]}}}"

    def sources(self, token: str, shell: Iterable[str]) -> dict[str, str]:
        """Return all C files and headers by name."""
        return {**{name: _shell(name) for name in shell}, "data.c": self._data(token)}

    def _data(self, token: str) -> str:
        model, image = self._model, self._model.image
        also, firsts = [0], []
        for one in model.variables:
            firsts.append(len(also) if one.also else 0)
            also += [*one.also, 0] if one.also else []
        variables = "".join(
            f"  {{{one.place}u, {first}u, {one.owner}, {int(one.kind)}u}},\n"
            for one, first in zip(model.variables, firsts, strict=True)
        )
        handles = sorted(set(self._handles))
        functions = "".join(
            f"  {{{word}u, {self._handles[number]}}},\n" for word, number in image.functions
        )
        states = sum(one.kind == Kind.DERIVATIVE for one in model.variables)
        indicators = sum(one.kind == Kind.INDICATOR for one in model.variables)
        numbers = {
            "model_words": image.words.size,
            "model_place_count": len(image.places),
            "model_function_count": len(image.functions),
            "model_root": model.root,
            "model_variable_count": len(model.variables),
            "model_states": states,
            "model_first_state": model.first["states"],
            "model_first_derivative": model.first["derivatives"],
            "model_indicators": indicators,
            "model_first_indicator": model.first["indicators"],
        }
        return "\n".join(
            [
                '#include "model.h"',
                f'const char model_token[] = "{token}";',
                *(f"const uint32_t {name} = {value}u;" for name, value in numbers.items()),
                f"const int model_exchange = {int(model.exchange)};",
                f"const int64_t model_image[] = {{\n{_words(image.words)}}};",
                f"const uint32_t model_places[][2] = {{\n{_pairs(image.places)}}};",
                *(f"extern void {name}(void);" for name in handles),
                f"const struct function model_functions[] = {{\n{functions}}};",
                f"const struct variable model_variables[] = {{\n{variables}}};",
                f"const uint32_t model_also[] = {{{', '.join(map(str, also))}}};",
                "",
            ]
        )


def _words(words: Words) -> str:
    """Return the words as C; in hexadecimal, because C has no literal for the smallest number."""
    texts = [f"(int64_t){hex(int(one))}u" for one in words.view(np.uint64)]
    rows = (texts[i : i + 4] for i in range(0, len(texts), 4))
    return "".join(f"  {', '.join(row)},\n" for row in rows)


def _pairs(pairs: Words) -> str:
    return "".join(f"  {{{a}u, {b}u}},\n" for a, b in pairs)


def plain_header(model: Description) -> str:
    """Return the header for C programs without FMI."""
    lines = _shell("plain.h").replace("model_name_", f"{model.identifier}_")
    taken = dict.fromkeys(_FUNCTIONS, -1)
    for i, one in enumerate(model.variables):
        if one.kind not in (Kind.DERIVATIVE, Kind.INDICATOR):
            taken[identifier(one.name, taken)] = i
    names = "".join(
        f"  {model.identifier}_{name} = {i},"
        f" /* {model.variables[i].name} [{model.variables[i].unit}],"
        f" {model.variables[i].causality} */\n"
        for name, i in taken.items()
        if i >= 0
    )
    return lines.replace("/* names */\n", names)
