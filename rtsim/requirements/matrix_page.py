"""The traceability matrix as an HTML page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rtsim.core.errors import ScenarioError
from rtsim.record.markup import table, text
from rtsim.record.output_files import write_whole
from rtsim.record.reports.page import page
from rtsim.requirements.matrix import NOT_CHECKED, Cell, Matrix, Row

_STYLE = """
.matrix { max-height: 85vh; overflow: auto; }
.matrix table { width: auto; border-collapse: separate; border-spacing: 0; }
.matrix th { padding-left: 10px; }
.matrix thead th { position: sticky; top: 0; z-index: 1; vertical-align: bottom; }
.matrix th:first-child { position: sticky; left: 0; z-index: 1; background: var(--paper);
  min-width: 300px; max-width: 340px; padding-left: 0; overflow-wrap: anywhere;
  border-right: 1px solid var(--line); }
.matrix thead th:first-child { z-index: 2; }
.matrix tbody th { color: var(--ink); }
.matrix tbody tr > * { border-bottom: 1px solid var(--line); border-top: 0; }
.matrix code { display: block; color: var(--soft); font-size: 11px; }
.matrix th.run { max-width: 130px; overflow-wrap: anywhere; }
.matrix td { white-space: nowrap; padding: 4px 10px; }
.matrix td small { display: block; color: var(--soft); }
.matrix .none { color: var(--soft); }
@media print { .matrix { max-height: none; overflow: visible; } }
"""
_LEGEND = (
    "The robustness is the distance from the limit, in the unit of the compared values: positive "
    "if the requirement holds, negative if it is violated. Each cell has the verdict, the smallest "
    "robustness with its time, and how often the condition became true or how many steps were "
    "measured. The numbers refer to the list of reasons."
)


def write_matrix(matrix: Matrix, path: Path, runs: str = "runs") -> None:
    """Write a matrix to ``path`` as an HTML page or as a CSV table.

    ``runs`` is the word for the columns. Raises :class:`ScenarioError` for another suffix.
    """
    check_suffix(path)
    write_whole(path, matrix.to_csv() if _suffix(path) == ".csv" else matrix_page(matrix, runs))


def check_suffix(path: Path) -> None:
    """Raise ``ScenarioError`` if ``path`` has an unsuitable suffix."""
    if _suffix(path) not in (".html", ".csv"):
        raise ScenarioError(f"the matrix {path} must be a file .html or .csv")
    if not path.parent.is_dir():
        raise ScenarioError(f"there is no folder {path.parent} for the matrix {path}; create it")


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def matrix_page(matrix: Matrix, runs: str = "runs") -> str:
    """Return an HTML page with a row for each requirement and a column for each run or test."""
    rows = matrix.rows
    counts = Counter(row.whole.verdict for row in rows)
    facts = {"requirements": len(rows), runs: len(matrix.columns), **counts}
    boxes = "".join(f"<div><span>{text(k)}</span>{v}</div>" for k, v in facts.items())
    outcome = matrix.outcome.name.lower()
    said = {"passed": "all requirements hold", "failed": "a requirement is violated"}
    verdict = said.get(outcome, "a requirement is undecided or not exercised")
    head = (
        f"<h1>Requirements</h1>"
        f"<div class='verdict {outcome}'>Over all {text(runs)}: {verdict}</div>"
        f"<div class=facts>{boxes}</div>"
    )
    titles = "".join(f"<th class=run>{_linked(matrix, one)}</th>" for one in matrix.columns)
    titles += f"<th>worst robustness</th><th>{text(runs)} that exercise it</th>"
    reasons = _Reasons()
    body = "".join(_row(row, matrix.columns, runs, reasons) for row in rows)
    first = f"requirement, and its verdict over all {text(runs)}"
    grid = f"<table><thead><tr><th>{first}</th>{titles}</tr></thead><tbody>{body}</tbody>"
    legend = f"<p class=soft>{_LEGEND}</p>"
    sections = [
        ("matrix", "Matrix", f"{legend}<div class=matrix>{grid}</table></div>"),
        ("reasons", "Reasons", reasons.html()),
        ("runs", runs.capitalize(), _about(matrix)),
    ]
    return page("Requirements", head, sections, style=_STYLE)


class _Reasons:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, reason: str) -> str:
        if not reason:
            return ""
        number = self._numbers.setdefault(reason, len(self._numbers) + 1)
        return f'<sup><a href="#reason-{number}">{number}</a></sup>'

    def html(self) -> str:
        items = (f"<li id=reason-{k}>{text(one)}</li>" for one, k in self._numbers.items())
        return f"<ol>{''.join(items)}</ol>" if self._numbers else ""


def _about(matrix: Matrix) -> str:
    names = list(dict.fromkeys(name for facts in matrix.about.values() for name in facts))
    if not names:
        return ""
    rows = [
        (column, *(facts.get(one, "") for one in names)) for column, facts in matrix.about.items()
    ]
    notes = "".join(f"<p>{text(one)}</p>" for one in matrix.notes)
    return f"{notes}<div class=scroll>{table(('', *names), rows)}</div>"


def _linked(matrix: Matrix, column: str) -> str:
    link = matrix.links.get(column)
    return f'<a href="{text(link)}">{text(column)}</a>' if link else text(column)


def _row(row: Row, columns: list[str], runs: str, reasons: _Reasons) -> str:
    whole, remark = row.whole, row.remark(runs)
    verdict = f"<span class={_kind(whole)}>{whole.verdict}</span>"
    verdict += f" <span class=none>{text(remark)}</span>" if remark else ""
    said = f"<br>{text(row.text)}" if row.text else ""
    formula = f"<code>{text(row.formula)}</code>" if row.formula != row.name else ""
    cells = "".join(
        _cell(row, row.cells[one], reasons)
        if one in row.cells
        else f"<td class=none>{NOT_CHECKED}{reasons.mark(row.unchecked[one])}</td>"
        for one in columns
    )
    worst = f"{whole.margin}<small>{text(row.worst_in)}</small>" if row.worst_in else ""
    return (
        f"<tr><th><b>{text(row.name)}</b> {verdict}{said}{formula}</th>{cells}"
        f"<td class=n>{worst}</td><td class=n>{len(row.exercised_by)} of {len(columns)}</td></tr>"
    )


def _kind(cell: Cell) -> str:
    return cell.outcome.name.lower() if cell.exercised else "none"


def _cell(row: Row, cell: Cell, reasons: _Reasons) -> str:
    at = f"at {cell.worst_s:.6g} s" if cell.margin and cell.worst_s is not None else ""
    parts = (" ".join(one for one in (cell.margin, at) if one), row.counted(cell))
    shown = "".join(f"<small>{text(one)}</small>" for one in parts if one)
    return f"<td class={_kind(cell)}>{cell.verdict}{reasons.mark(cell.reason)}{shown}</td>"
