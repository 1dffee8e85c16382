"""README and docs/: their examples run, what they name is there, and the site builds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import papermill
import pytest
from kedro.utils import load_obj

from conle import cli
from conle.methods.registry import METHODS, TITLES

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def examples_of(page):
    return re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_run(page, tmp_path, monkeypatch):
    (tmp_path / "data" / "01_raw").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for example in examples_of(page):
        names = {}
        exec(compile(example, page, "exec"), names)
        if "D" in names:
            np.testing.assert_allclose(np.asarray(names["D"]).sum(axis=1), 1)


def test_what_examples_print_is_what_they_say(capsys):
    (example,) = examples_of("docs/posterior.md")
    exec(compile(example, "docs/posterior.md", "exec"), {})
    said = float(re.findall(r"# (0\.\d+)$", example, flags=re.MULTILINE)[0])
    assert abs(float(capsys.readouterr().out) - said) < 0.03
    (example,) = examples_of("docs/own-data.md")
    exec(compile(example, "docs/own-data.md", "exec"), {})
    assert capsys.readouterr().out.strip() == re.findall(r"print\(.*\)  # (.*)", example)[0]


def test_a_dataset_is_found_where_the_example_saves_it(project, monkeypatch):
    page = text_of("docs/new-dataset.md")
    monkeypatch.chdir(project.folder)
    (example,) = examples_of("docs/new-dataset.md")
    exec(compile(example, "docs/new-dataset.md", "exec"), {})
    (name,) = re.findall(r"kedro run --datasets (\w+)", page)
    run = project.kedro("run", "--pipelines=ingestion", "--datasets", name)
    assert run.returncode == 0, run.stderr


def test_the_whole_table_is_that_of_its_csv():
    """The table has the mean KL of every method (rows) on every dataset (columns)."""
    results = pd.read_csv(ROOT / "docs" / "results.csv")
    kl = results[results["measure"] == "kl_divergence"]
    expected = kl.pivot(index="method", columns="dataset", values="mean")
    text = text_of("docs/results.md").partition("## The whole table")[2]
    header, _, *rows = re.search(r"((?:\|.*\n)+)", text)[1].splitlines()
    cells = [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in (header, *rows)]
    datasets = [name if name in expected else f"Yeast_{name}" for name in cells[0][1:]]
    methods = {
        title.removesuffix(" (knows true distributions)"): name for name, title in TITLES.items()
    }
    assert {methods[row[0]] for row in cells[1:]} == set(expected.index)
    assert set(datasets) == set(expected)
    for title, *values in cells[1:]:
        for dataset, value in zip(datasets, values, strict=True):
            decimals = len(value.partition(".")[2])
            shown = expected.loc[methods[title], dataset]
            # Means of the CSV are rounded to six decimals.
            assert float(value) == pytest.approx(shown, abs=0.51 * 10**-decimals)


@pytest.mark.parametrize("page", PAGES)
def test_files_they_name_are_there(page):
    text = text_of(page)
    assert "<!--" not in text
    for path in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / path).exists(), path
    for path in re.findall(r"`((?:conf|src|tests|benchmarks|notebooks)/[^`* ]*)`", text):
        # The user writes the files in conf/local.
        assert path.startswith("conf/local/") or (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES)
def test_commands_name_pipelines_that_exist(page):
    registry = text_of("src/conle/pipeline_registry.py")
    for pipeline in re.findall(r"--pipelines?=(\w+)", text_of(page)):
        assert f'"{pipeline}"' in registry


@pytest.mark.parametrize("page", PAGES)
def test_commands_name_options_and_runners_that_exist(page):
    text = text_of(page)
    known = {option for parameter in cli.run.params for option in parameter.opts}
    for command in re.findall(r"kedro run((?: (?:[^`\n\\]|\\\n)*)?)", text):
        assert set(re.findall(r" (--[a-z-]+)", command)) <= known
    for runner in re.findall(r"--runner=([\w.]*\w)", text):
        load_obj(runner, "kedro.runner")


def test_the_site_builds_without_a_warning(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    for name in ("ConLE", "PosteriorPCA", "contrastive_loss", "temperature"):
        assert name in reference
    for method in METHODS.values():
        name = method.path.replace(":", ".")
        for member in ("fit", "transform", "fit_transform", "recover_folds"):
            assert f'id="{name}.{member}"' in reference


@pytest.mark.slow
def test_quickstart(tmp_path):
    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(ROOT / "notebooks" / "quickstart.ipynb", out, cwd=tmp_path)
    assert "image/png" in out.read_text(encoding="utf-8")
