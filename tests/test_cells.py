import pickle
import warnings
from functools import partial

import pytest
from cells_for_tests import cell_of, parameters_with
from kedro.pipeline import Node

from conle.cells import CellFunction, bind, failures_as_parameter_errors, make_cell, on_failure
from conle.errors import ParameterError
from conle.methods.contract import DivergenceError, NotApplicableError
from conle.pipelines.evaluation.nodes import score_folds
from conle.pipelines.recovery.nodes import empty_recovery, recover


def test_a_cell_has_the_parameters_of_its_method_and_dataset():
    parameters = parameters_with(
        conle={"steps": 30}, threshold=0.6, device="cpu", seed=3, degree_floors={"Toy": 1.0}
    )
    cell = make_cell(parameters, "Toy", "conle")
    assert (cell.dataset, cell.name, cell.method) == ("Toy", "conle", "conle")
    assert cell.block == {**parameters["conle"], "steps": 30}
    assert cell.settings == {"threshold": 0.6, "device": "cpu", "seed": 3, "degree_floor": 1.0}
    assert make_cell(parameters, "Other", "conle").settings["degree_floor"] == 0.0
    assert (cell.namespace, cell.title, cell.block_name) == ("Toy.conle", "Toy conle", "conle")
    assert cell.tags == ["method", "Toy", "conle", "gpu"]
    assert make_cell(parameters, "Toy", "uniform").tags == ["method", "Toy", "uniform"]
    enhancer = cell.make_enhancer()
    assert (enhancer.steps, enhancer.threshold, enhancer.seed) == (30, 0.6, 3)
    assert cell.make_enhancer(steps=17).steps == 17
    assert cell.make_enhancer().steps == 30


def test_a_cell_of_varied_hyperparameters_has_a_name_of_its_own():
    parameters = parameters_with(device="cpu")
    cell = make_cell(parameters, "Toy", "conle", "conle_lambda1_0p1", {"lambda1": 0.1})
    assert cell.namespace == "Toy.conle_lambda1_0p1"
    assert cell.title == "Toy conle_lambda1_0p1"
    assert cell.make_enhancer().lambda1 == 0.1
    # The parameters of the run have not changed.
    assert parameters["conle"]["lambda1"] == 0.5


def test_a_method_without_a_block_is_refused():
    parameters = parameters_with()
    del parameters["glle"]
    message = "glle has no block of hyperparameters: add 'glle' to a parameters_.*.yml of conf/base"
    with pytest.raises(ParameterError, match=message):
        make_cell(parameters, "Toy", "glle")


def test_a_variant_shares_the_block_of_its_method():
    cell = cell_of("conle_h", {"steps": 15})
    assert cell.block_name == "conle"
    assert cell.block["use_contrastive_loss"] is False
    assert cell.make_enhancer().use_contrastive_loss is False
    # The hyperparameters that define a variant cannot be varied.
    cell = make_cell(
        parameters_with(device="cpu"), "Toy", "conle_h", None, {"use_contrastive_loss": True}
    )
    assert cell.make_enhancer().use_contrastive_loss is False


@pytest.mark.parametrize(
    ("method", "block", "message"),
    [
        ("conle", 3, r"conle must be a block of hyperparameters, not 3"),
        ("conle_h", "x", r"conle must be a block of hyperparameters, not 'x'"),
        ("conle", {"step": 3}, r"conle has no hyperparameter 'step'; did you mean 'steps'"),
        ("km", {"delta": -1.0}, r"KM: delta must be greater than .*, not -1.0"),
    ],
)
def test_wrong_blocks_end_in_one_message(method, block, message):
    cell = cell_of(method, block)
    with pytest.raises(ParameterError, match=message):
        cell.make_enhancer()


def test_cells_are_equal_if_their_parameters_are():
    assert cell_of("conle", {"steps": 5}) == cell_of("conle", {"steps": 5})
    assert cell_of("conle", {"steps": 5}) != cell_of("conle", {"steps": 6})


def double(value, *, cell):
    return f"{cell.title} {2 * value}"


def test_a_bound_function_keeps_its_name():
    cell = cell_of("uniform")
    bound = bind(double, cell=cell)
    assert bound(2) == "Toy uniform 4"
    assert bound.cell is cell
    node = Node(bound, "a", "b", name="run", namespace="Toy")
    # Kedro shows the name of the function if a node has no name.
    assert str(Node(bound, "a", "b")).startswith("double(")
    assert node.func.__name__ == "double"
    assert node.func.cell is cell
    bound = bind(recover, cell=cell)
    assert (bound.__name__, bound.__doc__) == ("recover", recover.__doc__)
    assert bound.__wrapped__ is recover


def test_a_function_without_a_cell_is_a_plain_partial():
    bound = bind(score_folds, dataset="Toy", method="uniform")
    assert type(bound) is partial
    assert not hasattr(bound, "cell")
    assert bound.__name__ == "score_folds"


@pytest.mark.parametrize("function", [double, recover])
def test_a_bound_function_can_go_to_another_process(function):
    cell = cell_of("conle", {"steps": 5})
    again = pickle.loads(pickle.dumps(bind(function, cell=cell)))
    assert isinstance(again, CellFunction)
    assert again.func is function
    assert again.cell == cell
    assert again.__name__ == function.__name__
    node = pickle.loads(pickle.dumps(Node(bind(function, cell=cell), "a", "b")))
    assert node.func.cell == cell


def no_double(value, *, cell, failure, unit="s"):
    return f"{cell.name}, {value} {unit}: {failure}"


@on_failure(no_double)
def doubled(value, *, cell, unit="s"):
    """Double a value."""
    if isinstance(value, Exception):
        raise value
    return f"{2 * value} {unit}"


def test_a_function_that_does_not_fail():
    assert doubled(2, cell=cell_of("uniform")) == "4 s"
    assert bind(doubled, cell=cell_of("uniform"), unit="m")(2) == "4 m"
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Double a value.")
    assert doubled.empty is no_double
    assert recover.empty is empty_recovery


def test_a_failure_is_described_and_the_others_go_on(caplog):
    bound = bind(doubled, cell=cell_of("uniform"), unit="m")
    assert bound(RuntimeError("no number")) == ("uniform, no number m: RuntimeError: no number")
    assert "Toy uniform failed, the others go on: RuntimeError: no number" in caplog.text
    # The log shows the place of an unexpected error.
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("kind", [ParameterError, DivergenceError, NotApplicableError])
def test_a_users_mistake_has_no_traceback(kind, caplog):
    assert doubled(kind("too wide"), cell=cell_of("uniform")) == "uniform, too wide s: too wide"
    assert "Toy uniform failed, the others go on: too wide" in caplog.text
    assert "Traceback" not in caplog.text


def test_ctrl_c_is_no_failure_of_a_cell():
    @on_failure(no_double)
    def interrupted(value, *, cell):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(1, cell=cell_of("uniform"))


def test_failures_as_parameter_errors():
    for kind in (DivergenceError, NotApplicableError):
        with pytest.raises(ParameterError, match=r"^too wide$"), failures_as_parameter_errors():
            raise kind("too wide")
    with pytest.raises(KeyError), failures_as_parameter_errors():
        raise KeyError("x")


@pytest.mark.filterwarnings("always:.*wide:UserWarning")
def test_each_cell_logs_a_warning_once(caplog):
    """Also where a cell fits a method to several folds, and where two cells warn alike."""

    def warn(*, cell):
        for _ in range(3):
            warnings.warn("ConLE: too wide", stacklevel=2)
        return cell.name

    before = warnings.showwarning
    for dataset in ("One", "Two"):
        assert bind(warn, cell=cell_of("conle_h", dataset=dataset))() == "conle_h"
    assert caplog.messages == ["One conle_h: too wide", "Two conle_h: too wide"]
    assert warnings.showwarning is before


def test_all_hyperparameters_of_a_cell():
    cell = cell_of("conle_h", {"steps": 15, "seed": 4}, seed=3)
    assert cell.hyperparameters == cell.make_enhancer().get_params()
    wanted = {"steps": 15, "seed": 4, "use_contrastive_loss": False, "snapshot_every": None}
    assert wanted.items() <= cell.hyperparameters.items()
    assert cell_of("uniform").hyperparameters == {}
