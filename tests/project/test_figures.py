"""The tool that takes figures from NASA's files, on small files of the same form."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from tools.figures import Definition, answers, check_shots, main, tables, trajectory

LAW = ET.fromstring("""
<DAVEfunc xmlns="http://daveml.org/2010/DAVEML" xmlns:m="http://www.w3.org/1998/Math/MathML">
  <variableDef varID="gain" initialValue="-10"/>
  <variableDef varID="error" minValue="-180" maxValue="180"/>
  <variableDef varID="roll" minValue="-30" maxValue="30"><calculation><m:math><m:apply>
    <m:times/><m:ci>gain</m:ci><m:apply><m:minus/><m:ci>error</m:ci></m:apply>
  </m:apply></m:math></calculation></variableDef>
  <variableDef varID="side"><calculation><m:math><m:apply><m:piecewise>
    <m:piece><m:cn>1</m:cn><m:apply><m:gt/><m:ci>roll</m:ci><m:cn>20</m:cn></m:apply></m:piece>
    <m:piece><m:cn>2</m:cn><m:apply><m:gt/><m:ci>roll</m:ci><m:cn>0</m:cn></m:apply></m:piece>
    <m:otherwise><m:apply><m:csymbol>atan2</m:csymbol><m:cn>0</m:cn><m:cn>-1</m:cn></m:apply>
    </m:otherwise></m:piecewise></m:apply></m:math></calculation></variableDef>
</DAVEfunc>
""")
SHOTS = ET.fromstring("""
<DAVEfunc><checkData><staticShot name="idle, low">
  <checkInputs><signal><signalName>mach</signalName><signalValue> 0.50</signalValue></signal>
  </checkInputs>
  <checkOutputs>
    <signal><signalName>x</signalName><signalValue>1.250</signalValue><tol>0.01</tol></signal>
    <signal><signalName>y</signalName><signalValue>7</signalValue><tol>9</tol></signal>
  </checkOutputs>
</staticShot></checkData></DAVEfunc>
""")
TABLES = ET.fromstring("""
<DAVEfunc>
  <breakpointDef bpID="A"><bpVals> -5., 0.0, 5 </bpVals></breakpointDef>
  <breakpointDef bpID="B"><description>of 2</description><bpVals>10.,20</bpVals></breakpointDef>
  <griddedTableDef name="one"><breakpointRefs><bpRef bpID="A"/></breakpointRefs>
    <dataTable><!-- of 3 --> .10,-.2, 3.</dataTable></griddedTableDef>
  <griddedTableDef name="two">
    <breakpointRefs><bpRef bpID="B"/><bpRef bpID="A"/></breakpointRefs>
    <dataTable>1,2,3,
    4,5,6</dataTable></griddedTableDef>
</DAVEfunc>
""")


@pytest.mark.parametrize(
    ("error", "roll", "side"),
    [(0.5, 5.0, 2.0), (2.5, 25.0, 1.0), (200.0, 30.0, 1.0), (-0.5, -5.0, 3.14159265358979)],
)
def test_a_definition_is_evaluated_as_it_is_written(error: float, roll: float, side: float) -> None:
    assert Definition(LAW).evaluate({"error": error}, "roll", "side") == pytest.approx([roll, side])


def test_what_is_given_is_not_computed_but_limited() -> None:
    given = {"error": 200.0, "roll": -31.0, "gain": 1.0}
    assert Definition(LAW).evaluate(given, "error", "roll", "gain") == [180.0, -30.0, 1.0]


def test_inputs_stay_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "law.csv"
    path.write_text("error,gain,roll\n0.50,-1e1,wrong\n")
    found = list(answers(path, Definition(LAW), ("roll",)))
    assert found == [["error", "gain", "roll"], ["0.50", "-1e1", "5"]]


def test_check_shots_are_taken_digit_for_digit() -> None:
    assert list(check_shots(SHOTS, ("x",))) == [
        ["name", "mach", "x", "tol"],
        ["idle, low", "0.50", "1.250", "0.01"],
    ]


def test_tables_are_taken_digit_for_digit() -> None:
    assert list(tables(TABLES)) == [
        ["one", "A", "-5.", "0.0", "5"],
        ["", "", ".10", "-.2", "3."],
        ["two", "B A", "-5.", "0.0", "5"],
        ["", "10.", "1", "2", "3"],
        ["", "20", "4", "5", "6"],
    ]


def test_a_table_that_lacks_a_value_is_refused() -> None:
    short = ET.fromstring(ET.tostring(TABLES).replace(b"4,5,6", b"4,5"))
    with pytest.raises(ValueError, match=r"two has 5 values over \['B', 'A'\]"):
        list(tables(short))


def test_a_trajectory_keeps_its_digits_and_only_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "case.csv"
    path.write_text("time,a,b,c\n0.0,1,2,3\n0.10000000149011612,1.50,2.0E-3,4\n")
    assert list(trajectory(path, ("b", "a"))) == [
        ["time", "b", "a"],
        ["0.0", "2", "1"],
        ["0.1", "2.0E-3", "1.50"],
    ]


def test_a_folder_without_nasas_files_is_refused(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, [str(tmp_path)])
    assert told.exit_code == 2
    assert "no Atmos_01_sim_04.csv below" in told.output
