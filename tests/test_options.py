import logging

import pytest

from conle.errors import ParameterError
from conle.known_datasets import PAPER_DATASETS, PUBLIC_DATASETS
from conle.options import RunOptions, run_options, set_run_parameters

PARAMETERS = {
    "datasets": ["Artificial"],
    "raw_dir": "raw",
    "seed": 0,
    "repeats": 10,
    "folds": 10,
    "protocol": "cross_validation",
    "threshold": 0.5,
    "device": "auto",
    "resume": False,
    "threads": None,
    "degree_floors": {"SJAFFE": 1},
    "conle": {"steps": 200},
    "sensitivity": {
        "datasets": ["SBU_3DFE"],
        "parameters": ["lambda1"],
        "grid": [0.1, 1],
        "steps": 200,
    },
    "convergence": {"datasets": "Movie+SJAFFE", "epochs": 3, "repeats": 1},
    "predictive": {"methods": "conle+lp", "without": "", "repeats": 1, "l2": 1.0},
    "fetch_from": "https://example.org",
    "input": None,
    "method": "conle",
    "enhance": {"candidates": "lp+glle", "folds": 3, "rows": 100, "degrees": 9000},
    "model": None,
    "registered_model": "conle",
}


@pytest.fixture
def select(tmp_path):
    def select(datasets):
        set_run_parameters(PARAMETERS | {"datasets": datasets}, tmp_path)
        return run_options().datasets

    yield select
    set_run_parameters(None, tmp_path)


@pytest.mark.parametrize("given", ["SJAFFE+Yeast_alpha", ["SJAFFE", "Yeast_alpha"]])
def test_datasets_as_a_list_or_joined_by_plus(select, given):
    assert select(given) == ["SJAFFE", "Yeast_alpha"]


@pytest.mark.parametrize("given", ["paper", ["paper"]])
def test_the_papers_datasets(select, given):
    assert select(given) == list(PAPER_DATASETS)


def test_public_datasets(select):
    """Natural_Scene is both a dataset of the paper and a public one, and is taken once."""
    assert select("public") == list(PUBLIC_DATASETS)
    assert len(PUBLIC_DATASETS) == 13
    both = select("paper+public+Mine")
    assert both == [*PAPER_DATASETS, *PUBLIC_DATASETS[:-1], "Mine"]
    assert PUBLIC_DATASETS[-1] == "Natural_Scene"


def test_a_dataset_of_the_users_own_may_be_named_in_every_run():
    """The configuration declares the dataset once; runs without it accept the declaration."""
    named = PARAMETERS["predictive"] | {"without": ["Mine"], "repeats": 20}
    options = RunOptions.from_parameters(
        PARAMETERS | {"degree_floors": {"SJAFFE": 1, "Mine": 1}, "predictive": named}
    )
    assert options.degree_floors["Mine"] == 1
    assert options.predictive.without == ["Mine"]


def test_present_datasets(select, tmp_path, caplog):
    (tmp_path / "raw").mkdir()
    for name in ("Yeast_spo", "Music", "SJAFFE", "Mine"):
        (tmp_path / "raw" / f"{name}.mat").touch()
    with caplog.at_level(logging.WARNING):
        assert select("present") == ["SJAFFE", "Yeast_spo", "Music"]
    assert "left out: SBU_3DFE, Natural_Scene, Movie" in caplog.text


def test_nothing_present(select):
    with pytest.raises(ParameterError, match="None of the known datasets is in raw"):
        select("present")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"datasets": "../SJAFFE"}, "is not the name of a dataset"),
        ({"datasets": "a b"}, "is not the name of a dataset"),
        ({"datasets": ""}, "is not the name of a dataset"),
        ({"datasets": 2024}, "names of datasets are expected"),
        ({"datasets": None}, "names of datasets are expected"),
        ({"datasets": []}, "datasets: .*at least 1 item"),
        ({"datasets": "A+B+A"}, "A is named more than once"),
        ({"datasets": "enhance"}, "'enhance' cannot name a dataset: the project uses it itself"),
        ({"datasets": ["A", "report"]}, "'report' cannot name a dataset"),
        ({"datasets": "params+A"}, "'params' cannot name a dataset"),
        ({"convergence": {"datasets": "enhance"}}, r"convergence\.datasets: 'enhance' cannot name"),
        ({"repeats": 0}, "repeats: .*greater than or equal to 1"),
        ({"folds": 1}, "folds: .*greater than or equal to 2"),
        ({"seed": "x"}, "seed: .*valid integer"),
        ({"seed": -1}, "seed: "),
        ({"degree_floors": {"SJAFFE": -1}}, "degree_floors.SJAFFE: "),
        ({"threshold": 1.0}, "threshold: .*less than 1"),
        ({"protocol": "holdout"}, "protocol: .*'cross_validation' or 'transductive'"),
        ({"sensitivity": {"grid": []}}, r"sensitivity\.grid: .*at least 1 item"),
        ({"convergence": {"epoch": 3}}, r"convergence\.epoch: .*not permitted"),
        ({"repeats": 1.5, "folds": "ten"}, r"repeats: .*\n.*folds: "),
    ],
)
def test_wrong_parameters(wrong, message):
    with pytest.raises(ParameterError, match=message):
        RunOptions.from_parameters(PARAMETERS | wrong)


def test_candidates_of_a_comparison():
    def candidates(given):
        changed = {"enhance": PARAMETERS["enhance"] | {"candidates": given}, "method": "auto"}
        return RunOptions.from_parameters(PARAMETERS | changed).enhance.candidates

    assert candidates("lp+glle") == [{"method": "lp"}, {"method": "glle"}]
    mapping = {"method": "conle", "reading": "raw"}
    assert candidates(["uniform", mapping]) == [{"method": "uniform"}, mapping]
    for wrong, message in (
        ("lp+gle", r"enhance\.candidates\.1: there is no method 'gle'; did you mean 'glle'\?"),
        ([{"reading": "raw"}], r"enhance\.candidates\.0: the name of a method is expected"),
        ("auto", r"enhance\.candidates\.0: there is no method 'auto'"),
        ([], r"enhance\.candidates: Value should have at least 1 item"),
    ):
        with pytest.raises(ParameterError, match=message):
            candidates(wrong)


def test_a_missing_parameter():
    with pytest.raises(ParameterError, match=r"seed: Field required$"):
        RunOptions.from_parameters({k: v for k, v in PARAMETERS.items() if k != "seed"})


def test_a_candidate_cannot_set_what_defines_its_method():
    candidate = {"method": "conle_adaptive", "reading": "raw", "steps": 9}
    enhance = PARAMETERS["enhance"] | {"candidates": [candidate]}
    with pytest.raises(ParameterError, match="conle_adaptive sets reading itself"):
        RunOptions.from_parameters(PARAMETERS | {"enhance": enhance})
