"""The posterior decoders on each representation of the features."""

from conle.core.hyperparameters import PositiveFloat, PositiveInt
from conle.methods.conle import ConLE, ObjectiveHyperparameters
from conle.methods.posterior.decoder import PosteriorDecoder
from conle.methods.posterior.representations import (
    ContrastiveLearner,
    NoLearner,
    PrincipalComponentsLearner,
    RepresentationLearner,
)


class PosteriorFeatureless(PosteriorDecoder):
    """The posterior decoder without features: every sample has the same mean."""

    def _learner(self) -> RepresentationLearner:
        return NoLearner()


class PosteriorPCA(PosteriorDecoder):
    """The posterior decoder on principal components of the standardised features.

    The other hyperparameters are those of `PosteriorDecoder`.
    """

    dimensions: PositiveInt = 30
    """Largest number of principal components."""
    clip: PositiveFloat = 5.0
    """Largest absolute value of a standardised feature."""

    def _learner(self) -> RepresentationLearner:
        return PrincipalComponentsLearner(self.dimensions, self.clip, self.seed)


class ConLEPosterior(ObjectiveHyperparameters, PosteriorDecoder):
    """The posterior decoder on ConLE's contrastive representation Z.

    The other hyperparameters are those of `PosteriorDecoder` and, for the training of the
    representation, of `ConLE`.
    """

    epochs: PositiveInt = 11
    """Largest number of passes over the training rows in the training of ConLE."""
    steps: PositiveInt = 100
    """Largest number of steps in the training of ConLE."""

    def _learner(self) -> RepresentationLearner:
        shared = {
            name: getattr(self, name) for name in ObjectiveHyperparameters.hyperparameter_names()
        }
        return ContrastiveLearner(
            ConLE(
                reading="softmax",
                stopping="fixed",
                epochs=self.epochs,
                steps=self.steps,
                device=self.device,
                seed=self.seed,
                **shared,
            )
        )
