import pytest

from conle.enhancers.base import LabelEnhancer
from conle.enhancers.registry import METHODS, REFERENCES, make_enhancer


@pytest.mark.parametrize("name", METHODS)
def test_entries(name):
    assert issubclass(METHODS[name].enhancer_class, LabelEnhancer)


def test_references_are_methods():
    assert set(REFERENCES) <= set(METHODS)


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


def test_values_are_checked_when_it_is_made():
    with pytest.raises(ValueError, match="'steps'"):
        make_enhancer("conle", {"steps": 0})
