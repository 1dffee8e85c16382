"""Whole runs that end in a report, and what a report takes from earlier runs."""

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from projects import tracked, write_toy

from conle.methods.registry import REFERENCES

EVERYTHING = {"datasets": "Toy", "levi_mlp.epochs": 5, "lible.epochs": 5}


@pytest.fixture(scope="module")
def everything(shared_project):
    """A project after `kedro run` on Toy; tests only add versions to it."""

    def fill(project):
        return write_toy(project).run("__default__", **EVERYTHING)

    return shared_project("everything", fill)


def test_an_empty_catalog(toy):
    missing = toy.run("evaluation", **EVERYTHING)
    assert missing.returncode == 1
    assert "no run has left in the catalog yet:\n  Toy.conle.curves\n" in missing.stderr
    assert "The catalog holds no run of a method." in missing.stderr
    assert "Traceback" not in missing.stderr

    report = toy.run("report", **EVERYTHING)
    assert report.returncode == 0, report.stderr
    assert (
        "Not in the report, no run of this protocol has recovered them: Toy: conle, "
        "conle_adaptive, conle_posterior, posterior_pca" in report.stderr
    )
    page = toy.newest("08_reporting/report/report.html").read_text(encoding="utf-8")
    assert "21 methods of a dataset are missing" in page
    table = toy.report_table("table3").read_text(encoding="utf-8")
    assert table.count("\n") == 1


def test_everything_and_then_the_evaluation_alone(everything):
    project, run = everything
    assert run.returncode == 0, run.stderr
    before = project.newest("08_reporting/results.parquet")
    results = pd.read_parquet(before)
    fitted_on = dict(zip(results["method"], results["fitted_on"], strict=True))
    inductive = {"conle", "levi_mlp", "lible", *REFERENCES}
    assert {name for name, rows in fitted_on.items() if rows == "training_folds"} == inductive
    assert {name for name, rows in fitted_on.items() if rows == "all"} == {
        "fcm",
        "km",
        "lp",
        "glle",
        "lesc",
        "ml",
    }
    statuses = {run.data.tags.get("method"): run.info.status for run in tracked(project)[1]}
    assert statuses == dict.fromkeys([None, *fitted_on], "FINISHED")

    again = project.run("evaluation", **EVERYTHING)
    assert again.returncode == 0, again.stderr
    after = project.newest("08_reporting/results.parquet")
    assert after != before
    assert after.read_bytes() == before.read_bytes()


def test_report_of_everything(everything):
    """The report shows the methods that were run, lists the missing ablations, and is in MLflow."""
    project, run = everything
    assert "report/report.html" in run.stdout
    assert (
        "no run of this protocol has recovered them: Toy: conle_adaptive, conle_posterior, "
        "posterior_pca" in run.stderr
    )
    folder = project.newest("08_reporting/report/exhibits")
    made = {path.name for path in folder.iterdir()} - {"contents.json"}
    drawn = {"table1", "table2", "table3", "cost"}
    empty = {"table4", "posterior", "limit", "tests", "figure3", "figure4", "predictive"}
    assert made == {
        *(f"{name}.tex" for name in drawn | empty | {"ranks", "leaderboard"}),
        *(
            f"{name}{suffix}"
            for name in drawn | {"training", "colours"}
            for suffix in (".png", ".svg")
        ),
    }
    table3 = pd.read_csv(project.report_table("table3"))
    summary = pd.read_csv(project.newest("08_reporting/summary.csv"))
    keys = ["method", "measure"]
    measured = table3.set_index(keys)["mean"].sort_index()
    pd.testing.assert_series_equal(measured, summary.set_index(keys)["mean"].sort_index())
    table4 = pd.read_csv(project.report_table("table4"))
    assert set(table4["method"]) == {"conle", "uniform", "softmax_labels", "label_posterior"}
    cost = pd.read_csv(project.report_table("cost"))
    assert set(cost["method"]) == set(summary["method"])
    samples = pd.read_parquet(project.newest("08_reporting/report/samples.parquet"))
    assert set(samples["method"]) == set(summary["method"])
    assert (cost["seconds"] > 0).all()

    client, runs = tracked(project)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    logged = {
        item.path
        for parent in parents
        for folder in ("report", "report/tables", "report/exhibits")
        for item in client.list_artifacts(parent.info.run_id, folder)
    }
    assert {
        "report/report.html",
        "report/tables/table3.csv",
        "report/exhibits/table3.tex",
    } <= logged


def shown_by_the_notebook(project):
    import papermill

    source = project.folder / "notebooks" / "results.ipynb"
    done = papermill.execute_notebook(
        source, None, cwd=source.parent, kernel_name="python3", progress_bar=False
    )
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    return "".join(output.get("data", {}).get("text/html", "") for output in outputs)


@pytest.mark.parametrize("name", ["results", "quickstart"])
def test_notebooks_are_short_and_stored_with_their_outputs(name):
    source = (Path(__file__).parents[1] / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    cells = json.loads(source)["cells"]
    assert len(cells) < 20
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)
    assert len(source) < 200_000
    # No address of the machine that ran it.
    assert "file:" not in source
    assert "".join(cells[-1]["source"]).startswith("## Conclusion")


@pytest.mark.slow
def test_a_quick_trial_does_not_hide_a_full_run(toy):
    assert toy.run("conle", datasets="Toy", repeats=2).returncode == 0
    full = toy.newest("08_reporting/summary.csv").read_text()
    assert toy.run("conle", datasets="Toy").returncode == 0
    report = toy.run("report", datasets="Toy", repeats=2)
    assert report.returncode == 0, report.stderr
    table = pd.read_csv(toy.report_table("table3"))
    summary = pd.read_csv(io.StringIO(full))
    keys = ["method", "measure"]
    pd.testing.assert_series_equal(
        table.set_index(keys)["mean"].sort_index(), summary.set_index(keys)["mean"].sort_index()
    )
    # No run has this seed: the page and the message list the existing runs.
    report = toy.run("report", datasets="Toy", seed=7)
    assert report.returncode == 0, report.stderr
    for repeats in (1, 2):
        command = (
            'kedro run --pipeline=report --params "datasets=Toy,protocol=cross_validation,'
            f'repeats={repeats},folds=3,seed=0,threshold=0.5"'
        )
        assert command in report.stderr
        page = toy.newest("08_reporting/report/report.html").read_text(encoding="utf-8")
        assert command.replace('"', "&#34;") in page


@pytest.mark.slow
def test_scores_of_runs_that_do_not_compare_are_refused(toy):
    parameters = {"datasets": "Toy", "levi_mlp.epochs": 5, "lible.epochs": 5}
    assert toy.run("conle", **parameters).returncode == 0
    assert toy.run("baselines", **parameters, protocol="transductive").returncode == 0
    run = toy.run("evaluation", **parameters)
    assert run.returncode == 1
    assert "no run has left in the catalog yet:\n  Toy.fcm.recovered" in run.stderr
    assert "baselines on Toy (fcm, glle, " in run.stderr
    assert "transductive, 1 x 3 folds, seed 0, threshold 0.5" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.slow
def test_a_run_with_its_report_can_be_resumed(toy):
    """Its page has all parameters, which MLflow takes once."""
    assert toy.run("__default__", **EVERYTHING).returncode == 0
    (outcome,) = (toy.folder / "data" / "08_reporting").glob("outcome.json/*/outcome.json")
    outcome.unlink()
    toy.newest("07_model_output/Toy/uniform/cost.json").write_text('{"failure": "too wide"}')
    run = toy.run("__default__", **EVERYTHING, resume="true")
    assert run.returncode == 0, run.stderr
    assert "Toy.uniform.recover" in run.stderr
    assert "Completed node: Toy.conle.recover" not in run.stderr
    assert {run.info.status for run in tracked(toy)[1]} == {"FINISHED"}


@pytest.mark.slow
def test_a_report_takes_a_cell_from_one_run(toy):
    """A later recovery without scores does not lend its cost to the scores of another run."""
    assert toy.run("conle", datasets="Toy").returncode == 0
    seconds = json.loads(toy.newest("07_model_output/Toy/conle/cost.json").read_text())["seconds"]
    parameters = "--params=datasets=Toy,repeats=1,folds=3,conle.steps=60"
    later = toy.kedro("run", "--pipelines=recovery", "--namespaces=Toy.conle", parameters)
    assert later.returncode == 0, later.stderr
    assert toy.run("report", datasets="Toy").returncode == 0
    cost = pd.read_csv(toy.report_table("cost")).set_index("method")
    assert cost.loc["conle", "seconds"] == pytest.approx(seconds)


@pytest.mark.slow
def test_the_limit_is_set_apart(toy):
    """It is the last row of the tables, and no method is ranked after it."""
    for pipeline in ("limit", "conle", "report"):
        run = toy.run(pipeline, datasets="Toy")
        assert run.returncode == 0, run.stderr
    table3 = pd.read_csv(toy.report_table("table3"))
    assert table3["method"].iloc[-1] == "limit"
    ranks = table3.set_index(["method", "measure"])["rank"]
    assert ranks["limit"].isna().all()
    assert ranks.drop("limit").min() == 1
    assert "limit" not in set(pd.read_csv(toy.report_table("ranks"))["method"])
    assert "limit" not in set(pd.read_csv(toy.report_table("wins"))["method"])
    kl = table3[table3["measure"] == "kl_divergence"].set_index("method")["mean"]
    multiples = pd.read_csv(toy.report_table("multiples_of_limit")).set_index("dataset").loc["Toy"]
    assert multiples["limit"] == pytest.approx(kl["limit"])
    assert multiples["conle"] == pytest.approx(kl["conle"] / kl["limit"])
    page = toy.newest("08_reporting/report/report.html").read_text(encoding="utf-8")
    assert "How far from the limit" in page


@pytest.mark.slow
def test_posterior(toy):
    short = {"sweeps": 20, "burn_in": 8}
    blocks = ("conle_posterior", "posterior_pca", "posterior_featureless")
    options = {f"{block}.{name}": value for block in blocks for name, value in short.items()}
    run = toy.run("posterior", datasets="Toy", **options)
    assert run.returncode == 0, run.stderr
    stacking = json.loads(toy.newest("07_model_output/Toy/posterior_weights.json").read_text())
    assert sum(stacking["weights"].values()) == pytest.approx(1)
    results = pd.read_parquet(toy.newest("08_reporting/results.parquet"))
    others = {"conle_posterior_no_floor", "posterior_stacked", "uniform"}
    assert {*blocks, *others} < set(results["method"])
    means = results.groupby(["method", "measure"])["value"].mean()
    # KL is convex: that of the mean is at most the mean of theirs.
    mixed = sum(w * means[name, "kl_divergence"] for name, w in stacking["weights"].items())
    assert means["posterior_stacked", "kl_divergence"] <= mixed + 1e-12
    # Toy declares no floor.
    pd.testing.assert_series_equal(means["conle_posterior"], means["conle_posterior_no_floor"])
    assert "stacked posterior" in run.stdout
    client, runs = tracked(toy)
    assert {run.info.status for run in runs} == {"FINISHED"}
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    logged = [item.path for item in client.list_artifacts(parent.info.run_id, "posterior/Toy")]
    assert "posterior/Toy/posterior_weights.json" in logged
    assert {f"posterior/Toy/{method}" for method in blocks} < set(logged)
    # The same settings are recovered once.
    recovered = {run.data.tags["method"] for run in runs if "method" in run.data.tags}
    assert recovered == {*blocks, *REFERENCES}
    # The report explains the decoders and shows how sure they are.
    run = toy.run("report", datasets="Toy")
    assert run.returncode == 0, run.stderr
    examination = pd.read_csv(toy.report_table("examination"))
    assert examination["method"].tolist() == list(blocks)
    weights = examination.set_index("method")["weight"].to_dict()
    assert weights == pytest.approx(stacking["weights"])
    assert examination["covered"].between(0.2, 1).all()
    page = toy.newest("08_reporting/report/report.html").read_text()
    assert "Most of the gain comes from the threshold and the covariance" in page
    shown = shown_by_the_notebook(toy)
    assert "ConLE posterior" in shown
    assert "PCA posterior" in shown
