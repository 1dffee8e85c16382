"""Every method by name: its class and its block of hyperparameters.

A new method is one file, one entry here and one block in `conf/base/parameters_*.yml`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import conle.methods.contract


@dataclass(frozen=True)
class Method:
    """A label enhancer as pipelines and reports see it.

    Pipelines are built without importing the class, because torch takes seconds to load. So
    `trained` and `transductive` repeat facts of the class; a test compares them.

    Attributes:
        title: name in tables and figures.
        path: "module:class".
        parameters: name of its block of hyperparameters in `conf/base`.
        role: part of the benchmark that the method belongs to.
        fixed: hyperparameters that define this variant of the class and cannot be set.
        trained: whether it has weights to keep and training curves to draw.
        transductive: whether it recovers only the rows it is fitted to.
        resource: "gpu" or "memory", whichever limits it on a machine; None if neither does.
    """

    title: str
    path: str
    parameters: str
    role: Literal[
        "conle", "adaptive", "ablation", "posterior", "floor", "baseline", "reference"
    ] = "baseline"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    trained: bool = False
    transductive: bool = False
    resource: Literal["gpu", "memory"] | None = None

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.split(":")[1]

    @property
    def enhancer_class(self) -> type["conle.methods.contract.LabelEnhancer"]:
        """The class, imported on use."""
        return getattr(import_module(self.path.split(":")[0]), self.class_name)


_CONLE = "conle.methods.conle:ConLE"
_CONLE_POSTERIOR = "conle.methods.posterior.variants:ConLEPosterior"
_POSTERIOR_PCA = "conle.methods.posterior.variants:PosteriorPCA"
_POSTERIOR_FEATURELESS = "conle.methods.posterior.variants:PosteriorFeatureless"

METHODS = {
    "conle": Method("ConLE", _CONLE, "conle", "conle", trained=True, resource="gpu"),
    "conle_adaptive": Method(
        "adaptive ConLE",
        _CONLE,
        "conle",
        "adaptive",
        {"reading": "auto", "stopping": "label_posterior"},
        trained=True,
        resource="gpu",
    ),
    "conle_h": Method(
        "ConLE_h",
        _CONLE,
        "conle",
        "ablation",
        {"use_contrastive_loss": False},
        trained=True,
        resource="gpu",
    ),
    "conle_l": Method(
        "ConLE_l",
        _CONLE,
        "conle",
        "ablation",
        {"use_threshold_loss": False},
        trained=True,
        resource="gpu",
    ),
    "conle_posterior": Method(
        "ConLE posterior", _CONLE_POSTERIOR, "conle_posterior", "posterior", resource="gpu"
    ),
    # It has no floor, whatever the datasets declare.
    "conle_posterior_no_floor": Method(
        "ConLE posterior, no floor",
        _CONLE_POSTERIOR,
        "conle_posterior",
        "floor",
        {"degree_floor": 0.0},
        resource="gpu",
    ),
    "posterior_pca": Method(
        "PCA posterior", _POSTERIOR_PCA, "posterior_pca", "posterior", resource="gpu"
    ),
    "posterior_featureless": Method(
        "featureless posterior",
        _POSTERIOR_FEATURELESS,
        "posterior_featureless",
        "posterior",
        resource="gpu",
    ),
    "fcm": Method("FCM", "conle.methods.fcm:FCM", "fcm", transductive=True, resource="memory"),
    "km": Method("KM", "conle.methods.km:KM", "km", transductive=True, resource="memory"),
    "lp": Method("LP", "conle.methods.lp:LP", "lp", transductive=True, resource="memory"),
    "glle": Method("GLLE", "conle.methods.glle:GLLE", "glle", transductive=True, resource="memory"),
    "levi_mlp": Method(
        "LEVI-MLP", "conle.methods.levi_mlp:LEVIMLP", "levi_mlp", trained=True, resource="gpu"
    ),
    "lesc": Method("LESC", "conle.methods.lesc:LESC", "lesc", transductive=True, resource="memory"),
    # The paper does not have the following two.
    "ml": Method("ML", "conle.methods.ml:ML", "ml", transductive=True),
    "lible": Method("LIBLE", "conle.methods.lible:LIBLE", "lible", trained=True, resource="gpu"),
    "uniform": Method("uniform", "conle.methods.references:Uniform", "uniform", "reference"),
    "softmax_labels": Method(
        "softmax of L", "conle.methods.references:SoftmaxLabels", "softmax_labels", "reference"
    ),
    "label_posterior": Method(
        "label posterior",
        "conle.methods.references:LabelPosterior",
        "label_posterior",
        "reference",
    ),
}


def _with_role(role: str) -> tuple[str, ...]:
    return tuple(name for name, method in METHODS.items() if method.role == role)


ADAPTIVE = _with_role("adaptive")
ABLATIONS = _with_role("ablation")
POSTERIORS = _with_role("posterior")
FLOORS = _with_role("floor")
BASELINES = _with_role("baseline")
REFERENCES = _with_role("reference")
# The posterior whose representation the logical labels choose; it is no method of its own.
STACKED = "posterior_stacked"
# The recovery that is shown the true distributions of the training rows (`conle.limit`); it is no
# method. Tables set it apart, as the references, and nothing ranks it.
LIMIT = "limit"
SET_APART = (*REFERENCES, LIMIT)
# The learner of the predictive setting is also trained on these.
TRUE_DISTRIBUTIONS, NORMALISED_LABELS = "true_distributions", "normalised_labels"

TITLES = {name: method.title for name, method in METHODS.items()} | {
    STACKED: "stacked posterior",
    LIMIT: "limit (knows true distributions)",
    TRUE_DISTRIBUTIONS: "true distributions",
    NORMALISED_LABELS: "L, normalised",
}

# Settings of a run, and of a dataset; a method takes those that it has as hyperparameters.
RUN_SETTINGS = ("threshold", "device", "seed")
DATASET_SETTINGS = ("degree_floor",)
# A message lists no more known names.
MOST_LISTED = 40


def make_enhancer(
    name: str, hyperparameters: Any = None, **run_settings: Any
) -> "conle.methods.contract.LabelEnhancer":
    """Make the unfitted enhancer of a name.

    Args:
        name: a key of `METHODS`.
        hyperparameters: the block of the method, a mapping as read from YAML; None for the
            defaults. The block may hold a seed, device or threshold of the method's own.
        run_settings: settings of the whole run (seed, device, threshold) and of the dataset
            (degree_floor); a method takes those that it has.

    Returns:
        The enhancer, its hyperparameters checked.

    Raises:
        ValueError: the method or a hyperparameter is unknown, a value is out of its range, or the
            block is not a mapping.
    """
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}{suggestion(name, METHODS)}")
    method = METHODS[name]
    block = {} if hyperparameters is None else hyperparameters
    if not isinstance(block, Mapping):
        raise ValueError(f"{method.parameters} must be a block of hyperparameters, not {block!r}")
    settings = (*RUN_SETTINGS, *DATASET_SETTINGS)
    for key in run_settings:
        if key not in settings:
            raise ValueError(f"{key!r} is no setting of a run{suggestion(key, settings)}")
    known = method.enhancer_class.hyperparameter_names()
    settable = [key for key in known if key not in method.fixed]
    for key in block:
        if key not in known:
            raise ValueError(f"{name} has no hyperparameter {key!r}{suggestion(key, settable)}")
    # The ablations share ConLE's block, which may hold the switch that they fix.
    values = {key: value for key, value in run_settings.items() if key in known}
    enhancer = method.enhancer_class(**{**values, **block, **method.fixed})
    enhancer.check_hyperparameters()
    return enhancer


def suggestion(wrong: str, choices: Iterable[str]) -> str:
    """End of a message about a wrong name: the nearest known name, or all if they are few."""
    known = list(choices)
    close = get_close_matches(wrong, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(known)}" if len(known) <= MOST_LISTED else ""
