"""Studies: many runs of one scenario with different values of its factors.

docs/studies.md explains studies with examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.core.estimates import batch_means, stratified, warm_up
    from rtsim.studies.counterexample import Counterexample
    from rtsim.studies.designs import (
        DESIGNS,
        Antithetic,
        CommonRandomNumbers,
        Design,
        Grid,
        LatinHypercube,
        MonteCarlo,
        Morris,
        OneAtATime,
        Points,
        Replications,
        Saltelli,
        Search,
        SobolSequence,
        Space,
        Strata,
        Table,
        UnitDesign,
    )
    from rtsim.studies.designs.search_methods import SEARCH_METHODS, SearchMethod
    from rtsim.studies.factors import normals
    from rtsim.studies.falsification import Falsification, falsify
    from rtsim.studies.fitting import Fit, Fitted, fit
    from rtsim.studies.folder import Folder
    from rtsim.studies.input_signals import InputSignal
    from rtsim.studies.interim_analysis import Stop
    from rtsim.studies.measures import Limit
    from rtsim.studies.reductions import (
        REDUCTIONS,
        FirstCrossing,
        IntegralSquaredError,
        Last,
        Max,
        MaxAbs,
        Mean,
        MeanOfRows,
        Min,
        Overshoot,
        Reduction,
        Running,
        SettlingTime,
    )
    from rtsim.studies.report.page import write_report
    from rtsim.studies.running import repeat, resume, start
    from rtsim.studies.shrinking import shrunk
    from rtsim.studies.study import Study
    from rtsim.studies.summary import interactions, sensitivity, summarise

__all__ = [
    "DESIGNS",
    "REDUCTIONS",
    "SEARCH_METHODS",
    "Antithetic",
    "CommonRandomNumbers",
    "Counterexample",
    "Design",
    "Falsification",
    "FirstCrossing",
    "Fit",
    "Fitted",
    "Folder",
    "Grid",
    "InputSignal",
    "IntegralSquaredError",
    "Last",
    "LatinHypercube",
    "Limit",
    "Max",
    "MaxAbs",
    "Mean",
    "MeanOfRows",
    "Min",
    "MonteCarlo",
    "Morris",
    "OneAtATime",
    "Overshoot",
    "Points",
    "Reduction",
    "Replications",
    "Running",
    "Saltelli",
    "Search",
    "SearchMethod",
    "SettlingTime",
    "SobolSequence",
    "Space",
    "Stop",
    "Strata",
    "Study",
    "Table",
    "UnitDesign",
    "batch_means",
    "falsify",
    "fit",
    "interactions",
    "normals",
    "repeat",
    "resume",
    "sensitivity",
    "shrunk",
    "start",
    "stratified",
    "summarise",
    "warm_up",
    "write_report",
]

__getattr__, __dir__ = lazy_exports(__name__)
