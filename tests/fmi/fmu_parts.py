"""FMUs that the tests compile from C of their own."""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

TANK = Path(__file__).with_name("tank.c")
needs_fmpy = pytest.mark.system("gcc")
HERE2, HERE3 = "linux64", f"{platform.machine()}-linux"


@cache
def folder() -> Path:
    return Path(mkdtemp(prefix="rtsim-fmu-"))


def description(
    fmi: int, *, saves: bool = True, variable: bool = True, more: int = 0, whole: bool = False
) -> str:
    """Return the modelDescription.xml of the tank, with ``more`` additional constants.

    With ``whole``, the valve is a whole number.
    """
    flags = f'canGetAndSetFMUstate="{str(saves).lower()}" '
    serial = "canSerializeFMUstate" if fmi == 2 else "canSerializeFMUState"
    if fmi == 3:
        flags = flags.replace("FMUstate", "FMUState")
    flags += f'{serial}="{str(saves).lower()}"'
    steps = f'canHandleVariableCommunicationStepSize="{str(variable).lower()}"'
    text = (_two if fmi == 2 else _three)(flags, steps, more)
    if whole and fmi == 2:
        return text.replace('<Boolean start="true"/>', '<Integer start="1"/>')
    if whole:
        return text.replace('<Boolean name="valve"', '<Int64 name="valve"').replace(
            'start="true"', 'start="1"'
        )
    return text


def _two(flags: str, steps: str, more: int) -> str:
    def scalar(name: str, vr: int, about: str, kind: str) -> str:
        return (
            f'<ScalarVariable name="{name}" valueReference="{vr}" {about}>{kind}</ScalarVariable>'
        )

    rows = [
        scalar("level", 0, 'causality="local" initial="exact"',
               '<Real unit="m" start="1" nominal="10"/>'),
        scalar("der(level)", 1, 'causality="local"', '<Real unit="m/s" derivative="1"/>'),
        scalar("inflow", 2, 'causality="input"', '<Real unit="m/s" start="0"/>'),
        scalar("out.y", 3, 'causality="output"', '<Real unit="m"/>'),
        scalar("k", 4, 'causality="parameter" variability="tunable"',
               '<Real unit="1/s" start="0.5" min="0"/>'),
        scalar("mode", 5, 'causality="parameter" variability="fixed"',
               '<Enumeration declaredType="Mode" start="1"/>'),
        scalar("valve", 6, 'causality="input" variability="discrete"', '<Boolean start="true"/>'),
        scalar("table", 7, 'causality="parameter" variability="fixed"', '<String start="none"/>'),
        scalar("count", 8, 'causality="output" variability="discrete"', "<Integer/>"),
        scalar("timed", 9, 'causality="output" variability="discrete"', "<Integer/>"),
        scalar("from_file", 11, 'causality="output" variability="discrete"', "<Boolean/>"),
        *(scalar(f"c[{i}]", 100 + i, 'causality="local" variability="constant" initial="exact"',
                 '<Real start="1"/>') for i in range(more)),
    ]  # fmt: skip
    outputs = "".join(f'<Unknown index="{i}"/>' for i in (4, 9, 10, 11))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="tank" guid="t" numberOfEventIndicators="1">
<ModelExchange modelIdentifier="tank" {flags} completedIntegratorStepNotNeeded="true"/>
<CoSimulation modelIdentifier="tank" {flags} {steps}/>
<UnitDefinitions><Unit name="m"/><Unit name="m/s"/><Unit name="1/s"/></UnitDefinitions>
<TypeDefinitions><SimpleType name="Mode"><Enumeration><Item name="Plain" value="1"/>
<Item name="Double" value="2"/></Enumeration></SimpleType></TypeDefinitions>
<ModelVariables>{"".join(rows)}</ModelVariables>
<ModelStructure><Outputs>{outputs}</Outputs>
<Derivatives><Unknown index="2"/></Derivatives>
<InitialUnknowns>{outputs}</InitialUnknowns></ModelStructure></fmiModelDescription>"""


def _three(flags: str, steps: str, more: int) -> str:
    constants = "".join(
        f'<Float64 name="c[{i}]" valueReference="{100 + i}" variability="constant" start="1"/>'
        for i in range(more)
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName="tank" instantiationToken="t">
<ModelExchange modelIdentifier="tank" {flags}/>
<CoSimulation modelIdentifier="tank" {flags} {steps}/>
<UnitDefinitions><Unit name="m"/><Unit name="m/s"/><Unit name="1/s"/></UnitDefinitions>
<TypeDefinitions><EnumerationType name="Mode"><Item name="Plain" value="1"/>
<Item name="Double" value="2"/></EnumerationType></TypeDefinitions>
<ModelVariables>
<Float64 name="time" valueReference="13" causality="independent" variability="continuous"/>
<Float64 name="level" valueReference="0" initial="exact" unit="m" start="1" nominal="10"/>
<Float64 name="der(level)" valueReference="1" unit="m/s" derivative="0"/>
<Float64 name="inflow" valueReference="2" causality="input" unit="m/s" start="0"/>
<Float64 name="out.y" valueReference="3" causality="output" unit="m"/>
<Float64 name="k" valueReference="4" causality="parameter" variability="tunable" unit="1/s"
 start="0.5" min="0"/>
<Enumeration name="mode" valueReference="5" causality="parameter" variability="fixed"
 declaredType="Mode" start="1"/>
<Boolean name="valve" valueReference="6" causality="input" variability="discrete" start="true"/>
<String name="table" valueReference="7" causality="parameter" variability="fixed">
<Start value="none"/></String>
<Int64 name="count" valueReference="8" causality="output" variability="discrete"/>
<Int64 name="timed" valueReference="9" causality="output" variability="discrete"/>
<Boolean name="from_file" valueReference="12" causality="output" variability="discrete"/>
<Float64 name="factors" valueReference="10" causality="parameter" variability="fixed"
 start="1 1 1"><Dimension start="3"/></Float64>
<Float64 name="above" valueReference="11"/>
{constants}
</ModelVariables>
<ModelStructure><Output valueReference="3"/><Output valueReference="8"/>
<Output valueReference="9"/><Output valueReference="12"/>
<ContinuousStateDerivative valueReference="1"/>
<InitialUnknown valueReference="3"/><InitialUnknown valueReference="1"/>
<EventIndicator valueReference="11"/></ModelStructure></fmiModelDescription>"""


@cache
def binary(fmi: int, *flags: str) -> Path:
    out = folder() / f"tank{fmi}{''.join(flags)}.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", f"-DFMI={fmi}", *(f"-D{f}" for f in flags),
         "-o", out, TANK, "-lm"],
        check=True,
    )  # fmt: skip
    return out


@cache
def tank(
    fmi: int,
    *flags: str,
    saves: bool = True,
    variable: bool = True,
    more: int = 0,
    system: str = "",
    whole: bool = False,
) -> Path:
    """Return an FMU of the tank, compiled with the macros ``flags``."""
    name = f"tank{fmi}{''.join(flags)}{saves:d}{variable:d}{more}{system}{whole:d}.fmu"
    here = system or (HERE2 if fmi == 2 else HERE3)
    return packed(
        name,
        {
            "modelDescription.xml": description(
                fmi, saves=saves, variable=variable, more=more, whole=whole
            ),
            f"binaries/{here}/tank.so": binary(fmi, *flags).read_bytes(),
        },
    )


def packed(name: str, files: dict[str, str | bytes], compress: bool = False) -> Path:
    """Return a ZIP file with these files."""
    path = folder() / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compress else 0) as archive:
        for inner, data in files.items():
            archive.writestr(inner, data)
    return path


LINUX = sys.platform == "linux"
