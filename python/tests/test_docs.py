"""The examples of the docstrings and of docs/python.md, the types, and examples/."""

from __future__ import annotations

import doctest
import inspect
import json
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import straddle_align
import straddle_align._straddle
import straddle_align._tables
import straddle_align.reports

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(inspect.getfile(straddle_align)).parent


@pytest.mark.parametrize("module", [straddle_align, straddle_align._straddle, straddle_align._tables])
def test_the_examples_of_docstrings_run(module: Any) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(ROOT / "docs/python.md"), module_relative=False)
    assert tried > 0 and failed == 0


def test_the_stubs_are_those_of_the_module(tmp_path: Path) -> None:
    assert (PACKAGE / "py.typed").exists()
    stubtest = [sys.executable, "-m", "mypy.stubtest", "straddle_align"]
    done = subprocess.run(stubtest, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, value in vars(straddle_align._straddle).items():
        assert name.startswith("_") or value.__doc__, name


def test_the_types_of_a_report_are_those_of_its_schema() -> None:
    schema = json.loads((ROOT / "docs/trace.schema.json").read_text())
    # What the command line adds, and what only its option --merge-within does.
    others = {"schema", "straddle", "merge_within_ns", "late_requests", "merged"}
    known = {"integer": int, "number": float, "string": str}

    def typed(form: dict[str, Any]) -> Any:
        form = form.get("anyOf", [form])[0]
        if "$ref" in form:
            name = form["$ref"].rpartition("/")[2]
            return Any if name == "File" else getattr(straddle_align.reports, name)
        kinds = form["type"] if isinstance(form["type"], list) else [form["type"]]
        return list[typed(form["items"])] if kinds == ["array"] else known[kinds[0]]

    forms = {**schema["$defs"], "Report": schema}
    assert forms.keys() - {"File", "Merged"} == set(straddle_align.reports.__all__) - {"Effect"}
    for name in forms.keys() - {"File", "Merged"}:
        form = forms[name]
        hints = typing.get_type_hints(getattr(straddle_align.reports, name), include_extras=True)
        expected = {
            key: typed(value) if key in form["required"] else typing.NotRequired[typed(value)]
            for key, value in form["properties"].items()
            if key not in others
        }
        assert hints == expected, name


def test_a_type_checker_accepts_what_the_page_does_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(
        "import pandas, polars, pyarrow, straddle_align\n"
        "histogram: straddle_align.Histogram = straddle_align.Histogram()\n"
        "histogram.update({'op': ['W']}).update(pyarrow.table({}), {'op': 'kind:0/1'})\n"
        "count: int = straddle_align.check_all(['a'], only=['S001'])['summary']['targets']\n"
    )
    wrong.write_text("import straddle_align\nstraddle_align.Histogram().update(1)\nstraddle_align.check(2)\n")
    check = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path)]
    done = subprocess.run([*check, str(right)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*check, str(wrong)], capture_output=True, text=True, check=False)
    assert "wrong.py:2: error" in done.stdout and "wrong.py:3: error" in done.stdout, done.stdout


def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(ROOT / "python/examples/units.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("read-modify-writes" in output.get("text", "") for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
