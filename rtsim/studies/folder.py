"""The folder of a study, with its plan and its results in Parquet files.

Each write adds a file to the folder ``results``, because Parquet files cannot grow. Programs that
read Parquet see the folder as one table. Each file contains digests of the plan and of its columns,
so that rtsim detects a damaged or edited file. Two rows of the same run are an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError, Undecided
from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.record import markup
from rtsim.studies.designs.base import Integers
from rtsim.studies.measures import POINTS, STATES, Limit, Row, margin_name
from rtsim.studies.plan import Ordered, Orders, Plan
from rtsim.studies.sources import SourcesChanged
from rtsim.studies.study import OWN_COLUMNS
from rtsim.studies.texts import runs_of


def pyarrow() -> Any:
    """Return pyarrow; raise ``ScenarioError`` if the extra ``study`` is missing."""
    with needs("study", "a study"):
        import pyarrow as module
        import pyarrow.compute
        import pyarrow.parquet
    return module


_KEY = b"rtsim"


def _column_digests(table: Any) -> dict[str, str]:
    return {name: _digest(table[name].combine_chunks()) for name in table.column_names}


def _digest(column: Any) -> str:
    arrow = pyarrow()
    out = hashlib.sha256(f"{len(column)}\n".encode())
    if arrow.types.is_list(column.type):
        out.update(json.dumps(column.value_lengths().to_pylist()).encode())
        column = column.flatten()
    out.update(f"{column.type}\n".encode())
    if column.type in (arrow.float64(), arrow.int64(), arrow.int32()):
        out.update(np.asarray(column.is_valid()).tobytes())
        out.update(np.ascontiguousarray(column.fill_null(0).to_numpy()).tobytes())
    else:
        out.update(json.dumps(column.to_pylist()).encode())
    return out.hexdigest()


def sealed(table: Any, about: Mapping[str, str]) -> Any:
    """Return a pyarrow table whose metadata contain ``about`` and digests of its columns."""
    seal = {**about, "columns": _column_digests(table)}
    return table.replace_schema_metadata({_KEY: json.dumps(seal)})


def _broken_seal(table: Any, about: Mapping[str, str]) -> str:
    try:
        seal = json.loads((table.schema.metadata or {})[_KEY])
        columns = dict(seal["columns"])
    except (KeyError, ValueError, TypeError):
        return "it has no checksums of rtsim"
    for key, value in about.items():
        if seal.get(key) != value:
            return f"its {key} is {seal.get(key)}, but expected is {value}"
    for name, digest in _column_digests(table).items():
        if columns.get(name) != digest:
            return f"the checksum of its column {name} is wrong"
    return ""


def read(path: Path, columns: list[str]) -> Any:
    """Read columns of a Parquet file.

    Errors of pyarrow are raised unchanged. ``pyarrow.parquet.read_table`` would start a thread pool
    and need 10 MB more.
    """
    arrow = pyarrow()
    with arrow.parquet.ParquetFile(path) as file:
        table = file.read(columns=columns, use_threads=False)
    if missing := [name for name in columns if name not in table.column_names]:
        raise arrow.ArrowInvalid(f"it has no column {', '.join(missing)}")
    return table.select(columns)


def _array_of(column: Any) -> NDArray[Any]:
    if str(column.type) != "string" or column.null_count:
        return np.asarray(column)
    found = column.combine_chunks().dictionary_encode()
    texts = np.array([*found.dictionary.to_pylist(), None], dtype=np.object_)[:-1]
    return np.asarray(texts[found.indices.to_numpy()])


def _schema_of(plan: Plan) -> Any:
    arrow = pyarrow()
    kinds = {
        "run": arrow.int64(), "seed": arrow.int64(), "state": arrow.string(),
        "cause": arrow.string(), "reason": arrow.string(), "ended_s": arrow.float64(),
        "attempts": arrow.int32(), "wall_s": arrow.float64(), "digest": arrow.string(),
        "sources": arrow.string(), "sources_sha256": arrow.string(),
    }  # fmt: skip
    first = plan.example
    for name, values in {**first.marks, **first.values}.items():
        kind = np.asarray(values).dtype.kind
        kinds[name] = {"b": arrow.bool_(), "i": arrow.int64(), "f": arrow.float64()}.get(
            kind, arrow.string()
        )
    for name in (*plan.results, *plan.margins):
        kinds[name] = arrow.float64()
    return arrow.schema(list(kinds.items()))


# Display of a study in a notebook: how its runs ended, and the range of each result.


def _shown_study(path: Path, plan: Plan, columns: Mapping[str, NDArray[np.generic]]) -> str:
    states = columns["state"]
    counts = {state: int((states == state).sum()) for state in STATES}
    facts: dict[str, object] = {
        "folder": path,
        "design": plan.design["design"],
        "runs": f"{len(states)} of {plan.runs}",
        "states": ", ".join(f"{count} {state}" for state, count in counts.items() if count),
    }
    for one in plan.job.required:
        met = columns[margin_name(one)].astype(np.float64) >= 0.0  # NaN >= 0 is False.
        facts[str(one)] = f"met in {int(met.sum())} of {len(met)} runs"
    rows = []
    for name in plan.results:
        values = columns[name].astype(np.float64)
        finite = values[np.isfinite(values)]
        ends = (float(finite.min()), float(finite.max())) if len(finite) else ("", "")
        rows.append([name, len(finite), *ends])
    return markup.shown("Study", facts, ("result", "finite values", "least", "greatest"), rows)


PLAN, RESULTS, HISTORIES = "plan.json", "results", "histories"
LOCK, ENDED = "lock", "ended.json"
_SHORTEST_NS = 2_000_000_000
_SHARE = 50
"""After 2 s, rows are written whenever 1/50 of the elapsed time has passed since the last write.
The growing interval limits the number of files.
"""
_MOST_ROWS = 10_000
_MOST_VALUES = 1_000_000
"""Rows are also written when their time histories reach this number of values (8 MB)."""


_UNFINISHED = re.compile(r"\..+\.\d+\.tmp")


class StudyError(RtsimError):
    """The folder of a study cannot be read or written."""


class Ended(NamedTuple):
    """Number of runs of a search, and the reason for its end."""

    runs: int = 0
    why: str = ""


_ABOUT = frozenset(OWN_COLUMNS) - {"run", "state"}


class Folder:
    """A folder on disk that contains one study."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path, self.plan = path, plan
        self._schema: Any = None
        self._rows: list[tuple[Any, ...]] = []
        """Rows that have not been written yet: the values of the schema, then the time histories. A
        single call adds each row, so that Ctrl-C cannot leave half a row.
        """
        self._kept: dict[Path, Any] | None = None
        self._accepted: set[str] = set()
        self._began = self._written = stopwatch()
        self._next = self._free()
        values = POINTS * len(plan.job.histories)
        self._most = max(1, min(_MOST_ROWS, _MOST_VALUES // max(1, values)))

    def __bool__(self) -> bool:
        raise Undecided(
            f"the study in {self.path} cannot be used as True or False, because each requirement "
            "has an outcome of its own; read the outcomes in "
            "rtsim.studies.summary.summarise(folder)['requirements']"
        )

    @classmethod
    def new(cls, path: Path, plan: Plan) -> Folder:
        """Create the folder; raise ``StudyError`` if it exists and is not empty.

        Files from a failed start of the study are allowed.
        """
        pyarrow()
        try:
            if path.exists() and not _unbegun(path):
                raise StudyError(
                    f"{path} exists already; give another -o FOLDER, or type "
                    f"rtsim study resume {path}"
                )
            (path / RESULTS).mkdir(parents=True, exist_ok=True)
            _sweep(path)
            _write(path / PLAN, lambda part: part.write_text(plan.to_text(), encoding="utf-8"))
        except OSError as error:
            with suppress(OSError):
                (path / RESULTS).rmdir()
                path.rmdir()
            raise StudyError(
                f"cannot write to {path}: {error.strerror or error}; make room, then start the "
                "study again"
            ) from error
        return cls(path, plan)

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open the folder of a study; raise ``StudyError`` if it does not exist."""
        pyarrow()
        try:
            text = (path / PLAN).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            if path.is_dir() and _unbegun(path):
                raise StudyError(
                    f"{path} is not the folder of a study that has begun: it has no {PLAN}; start "
                    f"it again with rtsim study start SCENARIO -o {path}"
                ) from None
            raise StudyError(
                f"{path} is not the folder of a study: {path / PLAN} cannot be read ({error})"
            ) from None
        return cls(path, Plan.of_text(text, path / PLAN))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Context manager that locks the folder; raises ``StudyError`` if it is in use."""
        busy = StudyError(
            f"another process works on {self.path}; wait until it ends, or give another folder"
        )
        if sys.platform == "win32":
            flags = os.O_CREAT | os.O_EXCL | os.O_TEMPORARY
            try:
                file = os.open(self.path / LOCK, flags)
            except FileExistsError:
                raise busy from None
        else:
            import fcntl

            file = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise busy from None
            except OSError:
                pass
        try:
            # Another process may have written files before the lock was taken.
            self._next = self._free()
            for one in (self.path, self.path / RESULTS, self.path / HISTORIES):
                _sweep(one)
            yield
        finally:
            os.close(file)

    @contextmanager
    def removed_if_refused(self) -> Iterator[None]:
        """Context manager that removes an empty folder after a ``ScenarioError``."""
        try:
            yield
        except ScenarioError:
            if not self._files():
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    def _free(self) -> int:
        return 1 + max(map(_number, self._files()), default=0)

    def _files(self) -> list[Path]:
        return sorted((self.path / RESULTS).glob("part-*.parquet"))

    @property
    def schema(self) -> Any:
        """Columns of the results as a pyarrow schema."""
        if self._schema is None:
            self._schema = _schema_of(self.plan)
        return self._schema

    @cached_property
    def _names(self) -> list[str]:
        return list(self.schema.names)

    @cached_property
    def _sources(self) -> dict[str, str]:
        out: dict[str, str] = {}
        for text in self.table("sources")["sources"].unique().to_pylist():
            out |= json.loads(text or "{}")
        return out

    def _check_sources(self, row: Row) -> None:
        if not row.sources or row.sources_sha256 in self._accepted:
            return  # The run did not end, or it used the same sources as earlier runs.
        if row.sources_sha256 != self.plan.job.sources_sha256(row.sources):
            raise SourcesChanged(f"the study in {self.path} has no run {row.order.run}")
        for name, digest in json.loads(row.sources).items():
            if self._sources.setdefault(name, digest) != digest:
                raise SourcesChanged(
                    f"{name} is not the file that earlier runs of the study read; restore it and "
                    f"type rtsim study resume {self.path}, or start a new study"
                )
        self._accepted.add(row.sources_sha256)

    def add(self, row: Row) -> None:
        """Keep a row in memory until the next ``write``.

        Raises ``SourcesChanged`` if the run used other files than earlier runs.
        """
        self._check_sources(row)
        columns, histories = row.columns(), row.histories
        values = [columns.get(name) for name in self._names]
        paths = [histories.get(signal) for signal in self.plan.job.histories]
        self._rows.append((*values, *paths))

    def write_if_due(self) -> None:
        """Write the rows in memory after some time or if there are many."""
        now = stopwatch()
        due = self._written + max(_SHORTEST_NS, (now - self._began) // _SHARE)
        if self._rows and (now >= due or len(self._rows) >= self._most):
            self.write()

    def write(self) -> None:
        """Write the rows in memory; raise ``StudyError`` on failure."""
        if not self._rows:
            return
        arrow = pyarrow()
        signals = self.plan.job.histories
        columns = list(zip(*self._rows, strict=True))
        values = zip(self.schema, columns[: len(self._names)], strict=True)
        arrays = {f.name: arrow.array(column, f.type) for f, column in values}
        name = f"part-{self._next:06d}.parquet"
        # Histories are written first, because a run with a row is treated as finished.
        if signals:
            lists = arrow.list_(arrow.float64())
            given = zip(signals, columns[len(self._names) :], strict=True)
            paths = {signal: arrow.array(one, lists) for signal, one in given}
            self._store(self.path / HISTORIES / name, {"run": arrays["run"], **paths})
        self._store(self.path / RESULTS / name, arrays)
        # One statement without a call, because Ctrl-C takes effect at calls.
        self._next, self._rows = self._next + 1, []
        self._written = stopwatch()

    def _store(self, target: Path, arrays: dict[str, Any]) -> None:
        arrow = pyarrow()
        table = sealed(arrow.table(arrays), self._about(target))
        try:
            target.parent.mkdir(exist_ok=True)
            _write(target, lambda part: arrow.parquet.write_table(table, part))
        except OSError as error:
            many = len(self._rows)
            raise StudyError(
                f"cannot write {target}: {error.strerror or error}; {runs_of(many)} "
                f"{'is' if many == 1 else 'are'} lost and will be repeated: make room, then type "
                f"rtsim study resume {self.path}"
            ) from error

    def _about(self, path: Path) -> dict[str, str]:
        return {"plan": self.plan.digest, "name": f"{path.parent.name}/{path.name}"}

    def _part(self, path: Path, columns: list[str], remedy: str) -> Any:
        arrow = pyarrow()
        try:
            table = read(path, columns)
            why = _broken_seal(table, self._about(path))
        except (OSError, ValueError, arrow.ArrowException) as error:
            why = str(error)
        if why:
            raise StudyError(f"{path} cannot be read ({why}); {remedy}")
        return table

    @contextmanager
    def read_once(self) -> Iterator[None]:
        """Context manager in which each column of the results is read only once."""
        if self._kept is not None:
            yield
            return
        self._kept = {}
        try:
            yield
        finally:
            self._kept = None

    def _results(self, path: Path, columns: list[str], remedy: str) -> Any:
        if self._kept is None:
            return self._part(path, columns, remedy)
        table: Any = self._kept.get(path)
        known = [] if table is None else table.column_names
        new = [name for name in columns if name not in known]
        if new:
            more = self._part(path, new, remedy)
            table = more if table is None else table
            for name in new if known else ():
                table = table.append_column(name, more[name])
            self._kept[path] = table
        return table.select(columns)

    def histories(self, signal: str) -> Iterator[tuple[Integers, Vector]]:
        """Yield run numbers (n,) and values over time (n, points) of a signal, file by file.

        The times are ``plan.job.grid``. Runs without a history are ignored. A file is ignored if
        the results of its runs are missing. Raises :class:`StudyError` for an unreadable file.
        """
        arrow = pyarrow()
        points = len(self.plan.job.grid)
        for table in self._stored_histories(signal):
            table = table.filter(arrow.compute.is_valid(table[signal]))
            lists = table[signal].combine_chunks()
            yield np.asarray(table["run"]), np.asarray(lists.flatten()).reshape(-1, points)

    def check_histories(self) -> None:
        """Raise ``StudyError`` if a file with values over time was changed."""
        for signal in self.plan.job.histories:
            for _ in self._stored_histories(signal):
                pass

    def _stored_histories(self, signal: str) -> Iterator[Any]:
        for results in self._files():
            path = self.path / HISTORIES / results.name
            if path.exists():
                remedy = "delete this file, and the histories of its runs are left out"
                yield self._part(path, ["run", signal], remedy)

    def table(self, *columns: str) -> Any:
        """Return the results so far as a pyarrow table, sorted by run number.

        ``columns`` selects columns, by default all. Margins are computed from the stored results.
        Raises ``StudyError`` for an unreadable file, and for a run with two rows.
        """
        arrow = pyarrow()
        names = list(columns) or self._names
        limits = (one for one in self.plan.job.required if isinstance(one, Limit))
        required = {margin_name(one): one for one in limits}
        sources = (required[name].result for name in names if name in required)
        wanted = list(dict.fromkeys(("run", *names, *sources)))
        schema = arrow.schema([self.schema.field(name) for name in wanted])
        parts, files = [schema.empty_table()], self._files()
        remedy = f"delete this file and type rtsim study resume {self.path}: its runs are repeated"
        for path in files:
            part = self._results(path, wanted, remedy)
            try:
                parts.append(part.cast(schema))
            except arrow.ArrowException as error:
                raise StudyError(f"{path} cannot be read ({error}); {remedy}") from None
        self._check_runs([np.asarray(part["run"]) for part in parts[1:]], files)
        table = arrow.concat_tables(parts)
        runs = np.asarray(table["run"])
        if not np.all(runs[1:] > runs[:-1]):
            table = table.take(np.argsort(runs, kind="stable"))
        for name in names:
            if name in required:
                values = table[required[name].result].to_pylist()
                margins = [None if v is None else required[name].margin(v) for v in values]
                at = table.schema.get_field_index(name)
                table = table.set_column(at, schema.field(name), [arrow.array(margins, "float64")])
        return table.select(names)

    def _check_runs(self, runs: list[Integers], files: list[Path]) -> None:
        known = np.sort(np.concatenate([np.empty(0, np.int64), *runs]))
        whole = (known >= 0) & (known < self.plan.runs)
        if whole.all() and (known[1:] > known[:-1]).all():
            return
        before: set[int] = set()
        for numbers, path in zip((one.tolist() for one in runs), files, strict=True):
            twice = sorted(run for run, many in Counter(numbers).items() if many > 1)
            doubled = twice or sorted(before.intersection(numbers))
            foreign = sorted(run for run in numbers if not 0 <= run < self.plan.runs)
            before.update(numbers)
            if doubled or foreign:
                many = ranges_text(ranges(doubled or foreign))
                what = "a second row" if doubled else "a row, but the study has no such run,"
                raise StudyError(
                    f"{path} has {what} of the runs {many}; delete this file and type rtsim study "
                    f"resume {self.path}: missing runs are repeated"
                )

    def _repr_html_(self) -> str:
        return _shown_study(self.path, self.plan, self.columns())

    @property
    def ended(self) -> Ended:
        """Number of runs of a search, and the reason for its end.

        Raises :class:`StudyError` for an unreadable file.
        """
        path = self.path / ENDED
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found.pop("digest", None) != self._ended_digest(ended := Ended(**found)):
                raise ValueError("its digest is wrong")
            return ended
        except FileNotFoundError:
            return Ended()
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StudyError(
                f"{path} cannot be read ({error}); delete this file and type "
                f"rtsim study resume {self.path}"
            ) from None

    def end(self, ended: Ended) -> None:
        text = json.dumps({**ended._asdict(), "digest": self._ended_digest(ended)})
        try:
            _write(self.path / ENDED, lambda part: part.write_text(text, encoding="utf-8"))
        except OSError as error:
            raise StudyError(
                f"cannot write {self.path / ENDED}: {error.strerror or error}; make room, then "
                f"type rtsim study resume {self.path}"
            ) from error

    def _ended_digest(self, ended: Ended) -> str:
        return hashlib.sha256(f"{self.plan.digest} {ended.runs} {ended.why}".encode()).hexdigest()

    @property
    def digest(self) -> str:
        """SHA-256 hash of the plan and all rows, as 64 hex digits.

        Wall-clock times have no effect on the hash. The hash is equal for any number of workers,
        any order of the runs, and after interruptions.
        """
        kept = [name for name in self._names if name not in ("wall_s", "attempts")]
        columns = _column_digests(self.table(*kept))
        return hashlib.sha256(json.dumps([self.plan.digest, columns]).encode()).hexdigest()

    @property
    def orders(self) -> Orders | Stored:
        """The runs of the study, by number."""
        return Orders(self.plan) if self.plan.sampled.planned else Stored(self)

    def columns(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return columns of ``table`` as arrays (n,), with NaN for missing numbers.

        The default is all results. Columns with texts about a run are omitted.
        """
        names = names or tuple(name for name in self.schema.names if name not in _ABOUT)
        table = self.table(*names)
        return {name: _array_of(table[name]) for name in names}

    def left(self, runs: int) -> NDArray[np.int64]:
        """Return the sorted numbers (n,) of runs without a stored result."""
        left = np.ones(runs, np.bool_)
        done = self.table("run")["run"].to_numpy()
        left[done[done < runs]] = False
        return np.flatnonzero(left)

    def row(self, run: int) -> dict[str, Any] | None:
        """Return the row of a run, or ``None`` if it is missing."""
        table = self.table()
        found = table.filter(pyarrow().compute.equal(table["run"], run)).to_pylist()
        return found[0] if found else None


class Stored:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def __getitem__(self, run: int) -> Ordered:
        row = self._folder.row(run)
        if row is None:
            raise ScenarioError(
                f"the search has no run {run} so far; it has {self._folder.table('run').num_rows} "
                "runs, whose numbers begin at 0"
            )
        example = self._folder.plan.example
        factors, marks = ({n: row[n] for n in names} for names in (example.values, example.marks))
        return Ordered(run, row["seed"], factors, marks)


def ranges(runs: Sequence[int]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for run in runs:
        if out and out[-1][1] == run - 1:
            out[-1] = out[-1][0], run
        else:
            out.append((run, run))
    return out


def ranges_text(found: Sequence[tuple[int, int]], most: int = 5) -> str:
    texts = [str(a) if a == b else f"{a} to {b}" for a, b in found[:most]]
    return ", ".join([*texts, *(["..."] if len(found) > most else [])])


def _unbegun(path: Path) -> bool:
    if not path.is_dir():
        return False
    for one in path.iterdir():
        empty = one.name == RESULTS and one.is_dir() and not any(one.iterdir())
        if not (empty or one.name == LOCK or _UNFINISHED.fullmatch(one.name)):
            return False
    return True


def _sweep(path: Path) -> None:
    with suppress(OSError):
        for one in path.iterdir():
            if _UNFINISHED.fullmatch(one.name):
                one.unlink()


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("part-")
    return int(digits) if digits.isdigit() else 0


def _write(target: Path, write: Any) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
