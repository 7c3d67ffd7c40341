"""What GitHub, PyPI and pre-commit read: each file has its form, and its facts are rtsim's."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click import ClickException
from click.testing import CliRunner

from rtsim.core.version import __version__
from tools import packages
from tools.newest import NEWEST, OLDEST
from tools.setup import GROUPS

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
PINNED = re.compile(r"^[\w-]+/[\w.-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ADDRESS = "https://git.example/someone/rtsim"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def unpinned(workflow: str) -> list[str]:
    """The actions of a workflow that are not named by the hash of a commit, with its version."""
    used = re.findall(r"^ *(?:- )?uses: (.*)$", workflow, re.M)
    return [action for action in used if not PINNED.match(action)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_each_action_by_its_commit(path: Path) -> None:
    assert unpinned(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("action", ["actions/checkout@v7", f"actions/checkout@{'0' * 40}"])
def test_an_action_without_a_commit_or_a_version_is_found(action: str) -> None:
    assert unpinned(f"    steps:\n      - uses: {action}\n") == [action]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_ends(path: Path) -> None:
    found = read(path)
    assert found["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 60 for job in found["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_of_the_makefile(path: Path) -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    wanted = set(re.findall(r"run: make ([a-z-]+)", path.read_text(encoding="utf-8")))
    assert wanted
    assert wanted <= made


def test_only_the_job_that_publishes_gets_a_token_and_it_runs_no_code_of_the_checkout() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert set(publish["needs"]) == set(jobs) - {"publish"}
    assert not [step for step in publish["steps"] if "run" in step or "checkout" in step["uses"]]


def test_a_citation_states_the_version_and_the_licence() -> None:
    found = read(ROOT / "CITATION.cff")
    required = {"cff-version", "message", "title", "authors"}
    assert required <= set(found)
    assert (found["title"], found["version"], found["type"]) == ("rtsim", __version__, "software")
    assert found["license"] in PROJECT["license"].split(" AND ")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_has_what_github_requires(path: Path) -> None:
    found = read(path)
    if path.stem == "config":
        assert set(found) == {"blank_issues_enabled"}
        return
    assert {"name", "description", "body"} <= set(found)
    fields = [part for part in found["body"] if part["type"] != "markdown"]
    assert fields
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)


def test_the_hooks_before_a_commit_run_tools_that_make_installs() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    tools = {"ruff", "mypy", "lint-imports"}
    entries = [hook["entry"] for hook in local["hooks"]]
    assert {tool for tool in tools for entry in entries if tool in entry.split("/")[-1]} == tools
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    assert all(hook["language"] == "system" for hook in local["hooks"])


# Metadata


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rtsim_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_are_stated_where_the_repository_is_known(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert setup.project_urls(setup.repository()) == {}
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/rtsim")
    urls = setup.project_urls(setup.repository())
    assert urls["Source"] == ADDRESS
    assert {"Source", "Documentation", "Changelog", "Issues"} <= set(urls)
    for url in urls.values():
        name = url.removeprefix(f"{ADDRESS}/blob/main/")
        assert name.startswith("https:") or (ROOT / name).is_file()


def test_the_description_has_no_link_that_needs_the_checkout(setup: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert setup.description(readme, "") == readme
    text = setup.description(readme, ADDRESS)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert len(links) > 30
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert f"({ADDRESS}/raw/main/docs/pictures/example.svg)" in text
    assert f"({ADDRESS}/blob/main/docs/tutorial.md)" in text


def test_the_classifiers_name_each_python_that_is_allowed() -> None:
    named = [c for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    tested = read(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert [name.rpartition(" ")[2] for name in named] == tested
    assert PROJECT["requires-python"] == f">={tested[0]}"


# The trial of the packages: make dist


EXAMPLES = (*packages.BASE, *packages.WITH_EXTRAS)


def test_each_example_of_the_trial_belongs_to_a_command_that_exists() -> None:
    from rtsim.cli.main import known_commands

    used = [command.split() for one in EXAMPLES for command in one.commands]
    kinds = {words[1] for words in used if words[0] == "rtsim"}
    assert {"run", "replay", "report", "study", "sil", "board", "pitl"} <= kinds
    assert kinds <= set(known_commands())
    assert set(packages.EXTRAS.split(",")) <= set(PROJECT["optional-dependencies"])
    assert GROUPS["dist"] == ("dist",)


def test_each_example_of_the_trial_finds_its_files() -> None:
    kinds = [one.kind for one in EXAMPLES]
    assert len(set(kinds)) == len(kinds)
    for place, one in enumerate(EXAMPLES):
        assert not one.after or one.after in kinds[:place], one.kind
    made = packages.inputs()
    words = {word for one in EXAMPLES for command in one.commands for word in command.split()}
    for name in ("cart.py", "pendulum.py", "tutorial.py", "functions.py", "first_run.ipynb"):
        assert name in words
        assert made[name]
    assert "swings(0.20)" in made["tutorial.py"]


def test_the_environment_of_the_trial_does_not_see_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("VIRTUAL_ENV", str(ROOT / ".venv"))
    found = packages.environment(tmp_path / "env", tmp_path)
    assert "PYTHONPATH" not in found
    assert "VIRTUAL_ENV" not in found
    assert Path(found["PATH"]).parent == tmp_path / "env", "no compiler of the system is in reach"
    assert found["RTSIM_CACHE_DIR"].startswith(str(tmp_path))
    with_system = packages.environment(tmp_path / "env", tmp_path, system=True)["PATH"]
    assert with_system.split(os.pathsep) == [found["PATH"], *os.environ["PATH"].split(os.pathsep)]


def test_a_trial_without_an_archive_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "DIST", tmp_path)
    said = CliRunner().invoke(packages.main, ["--built", "--only", "wheel"])
    assert said.exit_code == 1
    assert "python -m tools.packages" in said.output


def test_a_trial_takes_exactly_the_files_that_a_release_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "DIST", tmp_path)
    for name in ("rtsim-1.tar.gz", "rtsim-1-py3-none-any.whl"):
        (tmp_path / name).touch()
    assert {kind: path.name for kind, path in packages.archives().items()} == {
        "sdist": "rtsim-1.tar.gz", "wheel": "rtsim-1-py3-none-any.whl",
    }  # fmt: skip
    (tmp_path / "rtsim-0-py3-none-any.whl").touch()
    with pytest.raises(ClickException, match=r"rtsim-0-py3.*expected one sdist and one wheel"):
        packages.archives()


PROGRAM = """#!{python}
import sys
print("ran", *sys.argv[1:])
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the program is a script with a first line")
def test_a_trial_counts_what_passed_failed_and_could_not_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip is replaced: the archive brings one program, whose argument is its exit status."""
    program, archive = tmp_path / "program", tmp_path / "rtsim-1-py3-none-any.whl"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)

    def install(self: packages.Trial, place: Path, away: Path, wanted: list[str]) -> bool:
        del self, away, wanted
        shutil.copy(program, place / "bin" / "program")
        return True

    monkeypatch.setattr(packages.Trial, "_install", install)
    one = packages.Example
    examples = (
        one("good", ("program 0",), "ran 0"),
        one("refused", ("program 2",), "ran 2", status=2),
        one("wrong text", ("program 0",), "walked"),
        one("wrong status", ("program 1", "program 0"), ""),
        one("absent", ("other",), ""),
        one("later", ("program 0",), "", after="wrong text"),
        one("no program", ("program 0",), "", needs=("no_such_program",)),
    )
    monkeypatch.setattr(packages, "BASE", examples)
    trial = packages.Trial("wheel", Path(sys.executable), archive, "")
    trial.run()
    assert trial.outcomes == {
        "good": "passed", "refused": "passed", "wrong text": "FAILED", "wrong status": "FAILED",
        "absent": "FAILED", "later": "not tried", "no program": "not tried",
    }  # fmt: skip
    said = packages.counted(trial.outcomes)
    assert said.startswith("2 of 7 examples passed; FAILED: wrong text; ")
    assert said.endswith("not tried: later; not tried: no program")


def test_a_release_publishes_the_archives_that_were_built_and_used() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    steps = {name: job["steps"] for name, job in jobs.items()}
    runs = {name: [step.get("run", "") for step in found] for name, found in steps.items()}
    assert "make dist" in runs["build"]
    assert "make dist BUILT=1" in runs["use"]
    moved = [
        step["with"] for found in steps.values() for step in found
        if "-artifact@" in step.get("uses", "")
    ]  # fmt: skip
    assert [(one["name"], one["path"]) for one in moved] == [("dist", "dist/")] * 3
    publish = steps["publish"][-1]
    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert publish.get("with", {}).get("packages-dir", "dist/") == "dist/"


def test_the_archives_are_used_with_the_oldest_and_the_newest_python() -> None:
    ends = ["{}.{}".format(*version) for version in (OLDEST, NEWEST)]
    packed = read(ROOT / ".github/workflows/ci.yml")["jobs"]["packages"]
    assert packed["strategy"]["matrix"]["python"] == ends
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    built = [step.get("with", {}).get("python-version") for step in jobs["build"]["steps"]]
    assert set(ends) <= {*built, *jobs["use"]["strategy"]["matrix"]["python"]}
