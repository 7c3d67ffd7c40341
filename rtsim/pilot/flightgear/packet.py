"""The packets of FlightGear's native protocol; the only module that uses ``flightgear_python``.

FlightGear receives the state of an aircraft as one structure of C, ``FGNetFDM``, in network byte
order.  Source: FlightGear's file src/Network/net_fdm.hxx, versions 24 and 25.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.core.extras import extra
from rtsim.models.units import FT

VERSIONS = (24, 25)
"""FlightGear 2020.3.16 reads version 24 (tested); newer releases may read 25 (not tested)."""
VISIBILITY_M = 30_000.0
OPTION = "--flightgear"


@dataclass(frozen=True)
class Flown:
    """The state of one aircraft; geodetic on WGS-84, lengths in m, angles in rad, times in s.

    ``attitude`` is roll, pitch and heading of body axes (forward, right, down) from local axes
    (north, east, down).  ``turning`` has the rates of change of these angles.
    """

    latitude: float
    longitude: float
    altitude: float
    attitude: tuple[float, float, float]
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity relative to the Earth: north, east, down, m/s."""
    turning: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Packets:
    """Makes packets of one version of the protocol.

    Raises :class:`rtsim.core.errors.ScenarioError` if the package is not installed.
    """

    def __init__(self, version: int = VERSIONS[0]) -> None:
        module = extra(f"flightgear_python.fdm_v{version}", "flightgear", OPTION)
        self._struct: Any = module.fdm_struct
        self._fixed = _unused(self._struct)

    def of(self, flown: Flown) -> bytes:
        """Return the packet: 408 bytes in version 24, 552 bytes in version 25."""
        return bytes(self._struct.build({**self._fixed, **_fields(flown)}))


def _fields(flown: Flown) -> Mapping[str, float]:
    north, east, down = (speed / FT for speed in flown.velocity)
    roll, pitch, heading = flown.attitude
    return {
        "lon_rad": flown.longitude, "lat_rad": flown.latitude, "alt_m": flown.altitude,
        "agl_m": flown.altitude,
        "phi_rad": roll, "theta_rad": pitch, "psi_rad": heading,
        "phidot_rad_per_s": flown.turning[0], "thetadot_rad_per_s": flown.turning[1],
        "psidot_rad_per_s": flown.turning[2],
        "climb_rate_ft_per_s": -down,
        "v_north_ft_per_s": north, "v_east_ft_per_s": east, "v_down_ft_per_s": down,
        "visibility_m": VISIBILITY_M,
    }  # fmt: skip


def _unused(struct: Any) -> dict[str, Any]:
    """Return zeros for all fields of ``struct``, as one structure without engines and wheels has.

    ``cur_time_s`` = 0 leaves FlightGear's own time of day.
    """
    zeros = struct.parse(struct.subcons[0].build(None) + bytes(struct.sizeof() - 4))
    return {name: value for name, value in zeros.items() if not name.startswith("_io")}
