"""A cluster of Dask that is started by hand, with certificates, as Dask's documentation says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.study_faults.processes import Group, kill, program, wait_for

_DASK = program("dask")
_START_S = 60.0
_FAILURES = "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"


def certificates(folder: Path) -> dict[str, Path]:
    """Make an authority, and one certificate with its key for all processes, by openssl."""
    folder.mkdir(exist_ok=True)
    names = ("ca.key", "ca.pem", "node.key", "node.csr", "node.pem")
    ca_key, ca, key, request, certificate = (folder / name for name in names)
    make, private = Group(folder), ("-newkey", "rsa:2048", "-nodes")
    for words in (
        ("req", "-x509", *private, "-keyout", ca_key, "-out", ca, "-days", "30",
         "-subj", "/CN=study"),
        ("req", *private, "-keyout", key, "-out", request, "-subj", "/CN=node"),
        ("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial",
         "-out", certificate, "-days", "30"),
    ):  # fmt: skip
        status, text = make.run("openssl", *words)
        if status:
            raise RuntimeError(f"openssl ended with status {status}: {text}")
    return {"ca-file": ca, "cert": certificate, "key": key}


def client_environment(files: dict[str, Path]) -> dict[str, str]:
    """Return the variables that give Dask's client its certificates."""
    return {
        f"{_TLS}CA_FILE": str(files["ca-file"]),
        f"{_TLS}CLIENT__CERT": str(files["cert"]),
        f"{_TLS}CLIENT__KEY": str(files["key"]),
    }


class Cluster:
    """A scheduler and its workers, each a command in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.group = Group(folder, {_FAILURES: "0"})
        self.file = folder / "scheduler.json"
        self._scheduler: subprocess.Popen[str] | None = None

    def start(self, workers: int, files: dict[str, Path] | None) -> None:
        """Start all processes; ``files``: the certificates, ``None`` for a cluster without TLS."""
        tls = [word for name, path in (files or {}).items() for word in (f"--tls-{name}", path)]
        self._scheduler = self._begin(
            "scheduler", "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address",
            "127.0.0.1:0", "--protocol", "tls" if files else "tcp", "--scheduler-file", self.file,
            *tls,
        )  # fmt: skip
        if not wait_for(self._known, _START_S):
            raise RuntimeError(f"the scheduler of {self.file.parent} did not start; see its log")
        for k in range(workers):
            self._begin(
                f"worker-{k}", "worker", self.address, "--nthreads", "1", "--no-dashboard", *tls
            )
        if not wait_for(lambda: len(self.group.workers()) == workers, _START_S):
            raise RuntimeError(f"the workers of {self.file.parent} did not start; see their logs")

    def _known(self) -> bool:
        return self.file.exists() and self.file.stat().st_size > 0

    @property
    def address(self) -> str:
        """The address of the scheduler, such as ``tls://127.0.0.1:8786``."""
        return str(json.loads(self.file.read_text(encoding="utf-8"))["address"])

    def _begin(self, name: str, *words: str | Path) -> subprocess.Popen[str]:
        folder = self.group.folder / name
        folder.mkdir()
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        try:
            return self.group.begin(_DASK, *words, cwd=folder, output=log)
        finally:
            os.close(log)

    def kill_scheduler(self) -> bool:
        """Kill the scheduler; return whether it was there."""
        return self._scheduler is not None and kill(self._scheduler.pid)


@contextmanager
def cluster(folder: Path, workers: int, files: dict[str, Path] | None = None) -> Iterator[Cluster]:
    """Give a new cluster, and kill all its processes afterwards."""
    out = Cluster(folder)
    try:
        out.start(workers, files)
        yield out
    finally:
        out.group.end()
