"""Cost of an exchange with a HELICS federation: a run as a federate beside bare HELICS.

Two federates exchange one number in each period, in threads of this process (transport ``inproc``),
so that no network is measured.  Bare HELICS publishes, requests the next time and reads; the run
also advances a plant with one state.  The cost of the run is the difference between a long and a
short run, which start in the same way.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import rtsim as rt
from hitl.federates import federated
from rtsim.core.clock import stopwatch
from rtsim.runs.stepping import Simulation
from tools.bench.results import Result, Row
from tools.bench.turns import spread

PERIOD = 0.01


def _config(name: str, reads: str, broker: str, info: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"key": "x", "type": "double"}
    into: dict[str, Any] = {"key": f"{reads}/x"}
    return {
        "name": name, "core_type": "inproc", "core_name": f"{broker}_{name}",
        "core_init_string": f"--broker={broker} -f 1", "period": PERIOD, "log_level": "no_print",
        "publications": [out | ({"info": "plant.x"} if info else {})],
        "subscriptions": [into | ({"info": "of.u"} if info else {})],
    }  # fmt: skip


class Plant(rt.Plant):
    """An integrator."""

    x = rt.state("1")
    u = rt.input("1")

    def derivative(self, d: Any) -> None:
        d.x = -self.u


def _scenario(until: float) -> rt.Scenario:
    out = rt.Scenario("federate", until=until)
    out.plant("plant", Plant(), step=PERIOD)
    out.source("of", rt.Signals("u"))
    out.connect("of.u", "plant.u")
    return out


def _together(helics: Any, broker: str, one: Callable[[str, str], float]) -> float:
    """Return the time of the slower federate, ns."""
    made = helics.helicsCreateBroker("inproc", broker, "-f 2 --loglevel=no_print")
    took: list[float] = []
    threads = [
        threading.Thread(target=lambda pair=pair: took.append(one(*pair)))
        for pair in (("a", "b"), ("b", "a"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    helics.helicsBrokerDisconnect(made)
    return max(took)


def run(quick: bool = False) -> Result:
    """Measure; some seconds."""
    title = "an exchange of two federates of HELICS in one process"
    try:
        import helics
    except ImportError as error:
        return Result("federate", title, skipped=str(error))
    count, rounds = (200, 2) if quick else (2000, 5)
    bare: list[float] = []
    ours: list[float] = []
    for k in range(rounds):

        def plain(name: str, reads: str, broker: str = f"bare{k}") -> float:
            config = json.dumps(_config(name, reads, broker, info=False))
            made = helics.helicsCreateValueFederateFromConfig(config)
            out = helics.helicsFederateGetPublicationByIndex(made, 0)
            into = helics.helicsFederateGetInputByIndex(made, 0)
            helics.helicsFederateEnterExecutingMode(made)
            began = stopwatch()
            for n in range(count):
                helics.helicsPublicationPublishDouble(out, float(n))
                helics.helicsFederateRequestTime(made, (n + 1) * PERIOD)
                helics.helicsInputGetDouble(into)
            took = float(stopwatch() - began)
            helics.helicsFederateDisconnect(made)
            return took

        def whole(steps: int, k: int = k) -> float:
            broker = f"run{k}of{steps}"

            def one(name: str, reads: str) -> float:
                with Simulation(_scenario(steps * PERIOD), record=False) as simulation:
                    began = stopwatch()
                    federated(simulation, _config(name, reads, broker, info=True))
                    return float(stopwatch() - began)

            return _together(helics, broker, one)

        bare.append(_together(helics, f"bare{k}", plain) / count)
        ours.append((whole(count) - whole(count // 10)) / (count - count // 10))
    ratio = sorted(a / b for a, b in zip(ours, bare, strict=True))[rounds // 2]
    return Result("federate", title, rows=(
        Row("bare HELICS", spread(bare)),
        Row("a run as a federate", spread(ours)),
        Row("a run as a federate, beside bare HELICS", {"median [x]": ratio}),
    ))  # fmt: skip
