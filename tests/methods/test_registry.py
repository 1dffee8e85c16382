import subprocess
import sys

import pytest
import yaml

from conle.methods.contract import LabelEnhancer
from conle.methods.registry import (
    ABLATIONS,
    BASELINES,
    FLOORS,
    METHODS,
    POSTERIORS,
    REFERENCES,
    make_enhancer,
)
from conle.methods.training.enhancer import BatchedEnhancer


@pytest.mark.parametrize("name", METHODS)
def test_entries(name):
    assert issubclass(METHODS[name].enhancer_class, LabelEnhancer)
    assert METHODS[name].transductive != METHODS[name].enhancer_class.inductive
    assert METHODS[name].trained == issubclass(METHODS[name].enhancer_class, BatchedEnhancer)


def test_baselines_are_those_of_the_paper_and_what_was_added():
    assert BASELINES[:6] == ("fcm", "km", "lp", "glle", "levi_mlp", "lesc")
    assert {"ml", "lible"} <= {*BASELINES[6:]}
    assert ABLATIONS == ("conle_h", "conle_l")
    assert POSTERIORS == ("conle_posterior", "posterior_pca", "posterior_featureless")
    assert FLOORS == ("conle_posterior_no_floor",)
    assert REFERENCES == ("uniform", "softmax_labels", "label_posterior")


def test_the_registry_does_not_import_torch():
    """Every kedro command imports the registry."""
    command = "import sys, conle.methods.registry; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", command], check=True)


def test_methods_take_the_settings_they_have():
    assert make_enhancer("conle", {"steps": 20}, seed=5, threshold=0.4).seed == 5
    assert make_enhancer("label_posterior", seed=5, device="cpu").seed == 5
    assert make_enhancer("uniform", seed=5, device="cpu").get_params() == {}


def test_ablations_fix_their_switch():
    switches = {"use_contrastive_loss": True, "use_threshold_loss": True}
    assert make_enhancer("conle_h", switches).use_contrastive_loss is False
    assert make_enhancer("conle_h", switches).use_threshold_loss is True
    assert make_enhancer("conle_l", switches).use_threshold_loss is False


def test_unknown_names():
    with pytest.raises(ValueError, match="no method 'conel'; did you mean 'conle'"):
        make_enhancer("conel")
    with pytest.raises(ValueError, match="'step'; did you mean 'steps'"):
        make_enhancer("conle", {"step": 3})


def test_settings_that_no_run_has():
    with pytest.raises(ValueError, match="'sed' is no setting of a run; did you mean 'seed'"):
        make_enhancer("conle", sed=3)


def test_a_block_that_is_none():
    with pytest.raises(ValueError, match="conle must be a block of hyperparameters, not 3"):
        make_enhancer("conle", 3)


def test_configured_values_are_those_of_the_classes(request):
    """The class defaults and conf/base must not drift apart."""
    for name, method in METHODS.items():
        blocks = {}
        for path in (request.config.rootpath / "conf" / "base").glob("parameters_*.yml"):
            blocks |= yaml.safe_load(path.read_text(encoding="utf-8"))
        configured = make_enhancer(name, blocks[method.parameters])
        assert configured.get_params() == make_enhancer(name).get_params()


def test_values_are_checked_when_it_is_made():
    with pytest.raises(ValueError, match="ConLE: steps must be greater than 0, not 0"):
        make_enhancer("conle", {"steps": 0})


def test_every_method_can_be_imported_from_the_package():
    import conle

    for method in METHODS.values():
        name = method.enhancer_class.__name__
        assert getattr(conle, name) is method.enhancer_class
        assert name in dir(conle)
    with pytest.raises(AttributeError, match="no attribute 'Conle'"):
        _ = conle.Conle
