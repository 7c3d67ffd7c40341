"""A DBC file and a TOML file of frames for the tests of buses."""

from __future__ import annotations

from pathlib import Path

DBC = """VERSION ""
NS_ :
BS_:
BU_: ECU Tester
BO_ 256 Engine: 8 ECU
 SG_ speed : 0|16@1+ (0.25,0) [0|16383] "rpm" Tester
 SG_ torque : 23|12@0- (0.5,-100) [0|0] "N m" Tester
 SG_ temperature : 39|8@0+ (1,-40) [-40|215] "degC" Tester
 SG_ running : 40|1@1+ (1,0) [0|1] "" Tester
BO_ 512 Mux: 8 ECU
 SG_ page M : 0|4@1+ (1,0) [0|15] "" Tester
 SG_ volts m0 : 15|16@0- (0.001,0) [0|0] "V" Tester
 SG_ amperes m1 : 8|20@1- (0.01,5) [0|0] "A" Tester
 SG_ count : 63|8@0+ (1,0) [0|0] "" Tester
BO_ 2566844926 Long: 5 ECU
 SG_ pressure : 7|32@0- (1,0) [0|0] "Pa" Tester
 SG_ valve : 32|8@1+ (0.4,0) [0|100] "%" Tester
BO_ 300 Pedal: 2 Tester
 SG_ pedal : 0|16@1+ (0.01,0) [0|100] "%" ECU
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 65535;
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_ "GenMsgCycleTime" BO_ 256 10;
BA_ "GenMsgCycleTime" BO_ 512 20;
SIG_VALTYPE_ 2566844926 pressure : 1;
"""
TOML = """
[attitude]
endian = "big"

[attitude.fields]
magic = { type = "uint16", value = 0xCAFE }
roll = { type = "int16", scale = 0.01, unit = "deg" }
rates = { type = "float32", count = 3, unit = "rad/s" }
spare = { type = "padding", count = 2 }
armed = { type = "bool" }

[pedal]
period = 0.02
[pedal.fields]
pedal = { type = "uint16", scale = 0.01, unit = "%", overflow = "saturate" }
"""


def frame_files(folder: Path) -> tuple[Path, Path]:
    """Write both files; return the DBC file and the TOML file."""
    dbc, toml = folder / "car.dbc", folder / "nodes.toml"
    dbc.write_text(DBC)
    toml.write_text(TOML)
    return dbc, toml
