"""The examples of the docstrings and of docs/python.md, the stubs, and examples/."""

from __future__ import annotations

import ast
import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from judges import STRADDLE

import straddle
import straddle._straddle
import straddle._tables

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(inspect.getfile(straddle)).parent


@pytest.mark.parametrize("module", [straddle, straddle._straddle, straddle._tables])
def test_the_examples_of_docstrings_run(module: Any) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(ROOT / "docs/python.md"), module_relative=False)
    assert tried > 0 and failed == 0


def names(body: list[ast.stmt]) -> set[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")}


def test_the_stubs_have_what_the_module_has() -> None:
    assert (PACKAGE / "py.typed").exists()
    stubs = ast.parse((PACKAGE / "_straddle.pyi").read_text())
    public = {name for name in dir(straddle._straddle) if not name.startswith("_")}
    assert names(stubs.body) == public
    for node in stubs.body:
        if isinstance(node, ast.FunctionDef):
            same_parameters(node, getattr(straddle._straddle, node.name))
    histogram = next(node for node in stubs.body if isinstance(node, ast.ClassDef) and node.name == "Histogram")
    methods = {name for name in dir(straddle.Histogram) if not name.startswith("_")}
    assert names(histogram.body) == methods
    for node in histogram.body:
        method = getattr(straddle.Histogram, node.name)
        if isinstance(node, ast.FunctionDef) and callable(method) and not node.name.startswith("_"):
            same_parameters(node, method)


def same_parameters(stub: ast.FunctionDef, function: Any) -> None:
    arguments = stub.args.posonlyargs + stub.args.args + stub.args.kwonlyargs
    parameters = inspect.signature(function).parameters
    assert [argument.arg for argument in arguments] == list(parameters), stub.name
    assert function.__doc__, stub.name


def test_a_type_checker_accepts_what_the_page_does_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(
        "import pandas, polars, pyarrow, straddle\n"
        "histogram: straddle.Histogram = straddle.Histogram()\n"
        "histogram.update({'op': ['W']}).update(pyarrow.table({}), {'op': 'kind:0/1'})\n"
        "count: int = straddle.check_all(['a'], only=['S001'])['summary']['targets']\n"
    )
    wrong.write_text("import straddle\nstraddle.Histogram().update(1)\nstraddle.check(2)\n")
    check = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path)]
    done = subprocess.run([*check, str(right)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*check, str(wrong)], capture_output=True, text=True, check=False)
    assert "wrong.py:2: error" in done.stdout and "wrong.py:3: error" in done.stdout, done.stdout


def test_the_example_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "python/examples/units.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "read-modify-writes" in done.stdout and STRADDLE
