"""Every method by name. A new method is one file, one entry here and one block of parameters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from conle.methods.contract import LabelEnhancer


@dataclass(frozen=True)
class Method:
    """A label enhancer and what pipelines and reports need to know of it.

    Attributes:
        title: name in tables and figures.
        path: "module:class". Imported on use: torch takes seconds to load.
        parameters: name of its block of hyperparameters.
        trained: whether it has weights to keep and training curves to draw.
        transductive: whether it recovers only the rows it is fitted to.
        fixed: hyperparameters that make the method what it is and cannot be set.
        resource: what its time or size hangs on, "gpu" or "memory"; None if it is done at once.
    """

    title: str
    path: str
    parameters: str
    trained: bool = False
    transductive: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    resource: str | None = None

    @property
    def enhancer_class(self) -> type[LabelEnhancer]:
        """The class of the method."""
        module, name = self.path.split(":")
        return getattr(import_module(module), name)


METHODS = {
    "conle": Method("ConLE", "conle.methods.conle:ConLE", "conle", trained=True, resource="gpu"),
    "conle_h": Method(
        "ConLE_h",
        "conle.methods.conle:ConLE",
        "conle",
        trained=True,
        fixed={"use_contrastive_loss": False},
        resource="gpu",
    ),
    "conle_l": Method(
        "ConLE_l",
        "conle.methods.conle:ConLE",
        "conle",
        trained=True,
        fixed={"use_threshold_loss": False},
        resource="gpu",
    ),
    "conle_posterior": Method(
        "ConLE posterior",
        "conle.methods.posterior.decoder:ConLEPosterior",
        "conle_posterior",
        resource="gpu",
    ),
    "conle_posterior_floor": Method(
        "ConLE posterior, floor",
        "conle.methods.posterior.decoder:ConLEPosterior",
        "conle_posterior",
        fixed={"degree_floor": 1.0},
        resource="gpu",
    ),
    "conle_posterior_no_floor": Method(
        "ConLE posterior, no floor",
        "conle.methods.posterior.decoder:ConLEPosterior",
        "conle_posterior",
        fixed={"degree_floor": 0.0},
        resource="gpu",
    ),
    "posterior_pca": Method(
        "PCA posterior",
        "conle.methods.posterior.decoder:PosteriorPCA",
        "posterior_pca",
        resource="gpu",
    ),
    "posterior_featureless": Method(
        "featureless posterior",
        "conle.methods.posterior.decoder:PosteriorFeatureless",
        "posterior_featureless",
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
    "uniform": Method("uniform", "conle.methods.references:Uniform", "uniform"),
    "softmax_labels": Method(
        "softmax of L", "conle.methods.references:SoftmaxLabels", "softmax_labels"
    ),
    "label_posterior": Method(
        "label posterior", "conle.methods.references:LabelPosterior", "label_posterior"
    ),
}
# Settings of the whole run that a method takes if it has them.
RUN_SETTINGS = ("threshold", "device", "seed")
# And those of a dataset.
DATASET_SETTINGS = ("degree_floor",)
ABLATIONS = ("conle_h", "conle_l")
POSTERIORS = ("conle_posterior", "posterior_pca", "posterior_featureless")
# ConLE's posterior with a floor on every dataset and on none, whatever they declare.
FLOORS = ("conle_posterior_floor", "conle_posterior_no_floor")
# The posterior whose representation is chosen by the logical labels: no method of its own.
CHOSEN = "posterior_chosen"
REFERENCES = ("uniform", "softmax_labels", "label_posterior")
# All others: a new method joins them.
BASELINES = tuple(
    name for name in METHODS if name not in ("conle", *ABLATIONS, *POSTERIORS, *FLOORS, *REFERENCES)
)

# What the learner of the predictive setting is trained on beside recovered distributions.
TRUE_DISTRIBUTIONS, NORMALISED_LABELS = "true_distributions", "normalised_labels"

TITLES = {name: method.title for name, method in METHODS.items()} | {
    CHOSEN: "chosen posterior",
    TRUE_DISTRIBUTIONS: "true distributions",
    NORMALISED_LABELS: "L, normalised",
}


def make_enhancer(
    name: str, hyperparameters: Mapping[str, Any] | None = None, **run_settings: Any
) -> LabelEnhancer:
    """Make the unfitted enhancer of a name.

    Args:
        name: a key of `METHODS`.
        hyperparameters: of the method; defaults where left out. They may hold a seed, device or
            threshold of the method's own.
        run_settings: settings of the whole run (seed, device, threshold) and of the dataset
            (degree_floor); a method takes those it has.

    Returns:
        The enhancer, its hyperparameters checked.

    Raises:
        ValueError: the method or a hyperparameter is unknown, or a value is out of its range.
    """
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}{suggestion(name, METHODS)}")
    settings = (*RUN_SETTINGS, *DATASET_SETTINGS)
    unknown = sorted(set(run_settings) - set(settings))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no setting of a run{suggestion(unknown[0], settings)}")
    method = METHODS[name]
    if not isinstance(hyperparameters or {}, Mapping):
        raise ValueError(
            f"{method.parameters} must be a block of hyperparameters, not {hyperparameters!r}"
        )
    known = method.enhancer_class.hyperparameter_names()
    settable = [key for key in known if key not in method.fixed]
    values = {key: value for key, value in run_settings.items() if key in settable}
    for key, value in (hyperparameters or {}).items():
        # The ablations share ConLE's block, which may hold the switch that they fix.
        if key in method.fixed:
            continue
        if key not in known:
            raise ValueError(f"{name} has no hyperparameter {key!r}{suggestion(key, settable)}")
        values[key] = value
    enhancer = method.enhancer_class(**values, **method.fixed)
    enhancer.check_hyperparameters()
    return enhancer


def suggestion(wrong: str, choices: Iterable[str]) -> str:
    """The end of a message about a wrong name: the right one, or all there are."""
    close = get_close_matches(wrong, list(choices), n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(choices)}"
