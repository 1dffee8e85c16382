"""The Gibbs sampler of the posterior decoder, for several folds at once.

The model of a sample with representation f (of its features, or empty) is
u ~ N(W' [1, f], Sigma), w = phi + exp(u), D = w / sum(w), and binarising D gives its logical labels
(`threshold_model`). The priors are: W | Sigma is matrix-normal with row precision lambda (0.01 for
the intercept), lambda ~ Gamma(1/2, 1/2), and Sigma | a is inverse Wishart with 2 c degrees of
freedom and scale matrix a I. The density of a gives the overall deviation s = sqrt(tr(Sigma) / c) a
half-normal distribution with scale tau. Without the inverse Wishart, Sigma becomes singular in the
course of many sweeps, because logical labels hardly bound its smallest eigenvalues from below.

Every tensor has a leading fold axis. Each fold has random generators of its own, so that its draws
do not depend on the other folds of the batch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from conle.methods.posterior.threshold_model import is_feasible, ordering_bounds, weight_bounds
from conle.methods.posterior.truncated_normal import truncated_normal
from conle.methods.seeds import spawned

INTERCEPT_PRECISION = 0.01
# Shape and rate of the prior of lambda.
PRECISION_PRIOR = (0.5, 0.5)
# Degrees of freedom of the prior of Sigma, for each label.
DEGREES_PER_LABEL = 2
# This is added to the scatter matrix, which is singular if all samples agree.
JITTER = 1e-8
# Standard deviations of log g in the scale moves.
SCALE_MOVES = (0.3, 0.03, 0.003)
# A scale move is tried on this many samples of a fold first, because with many it mostly fails.
SAMPLES_TRIED_FIRST = 64

Weights = Float[Tensor, "folds labels samples"]
Relevant = Bool[Tensor, "folds labels samples"]


@dataclass
class Coefficients:
    """W, Sigma and lambda of each fold.

    Attributes:
        weights: W, folds x (1 + features) x labels.
        inverse_root: H of Sigma^-1 = H H', folds x labels x labels.
        variance: s^2 = tr(Sigma) / c, one per fold.
        precision: lambda, one per fold.
    """

    weights: Tensor
    inverse_root: Tensor
    variance: Tensor
    precision: Tensor

    def conditional(self) -> tuple[Tensor, Tensor]:
        """The distribution of a label's u given the others.

        Returns:
            Factors B (folds x labels x labels, zero diagonal): the conditional mean of u_j is
            mu_j - sum_k B_jk (u_k - mu_k); and the conditional deviations (folds x labels).
        """
        inverse = self.inverse_root @ self.inverse_root.mT
        diagonal = inverse.diagonal(dim1=1, dim2=2)
        factors = inverse / diagonal[..., None]
        factors.diagonal(dim1=1, dim2=2).zero_()
        return factors, diagonal.rsqrt()


PARTS = tuple(part.name for part in fields(Coefficients))


def collected(coefficients: Iterable[Coefficients], sweeps: int) -> Coefficients:
    """Put the coefficients of all sweeps together; every part has one axis more, the sweeps first.

    They become float32, because with many labels they are most of a model.

    Args:
        coefficients: those after every sweep; with many labels there is no room for them twice.
        sweeps: number of sweeps.
    """
    parts: dict[str, Tensor] = {}
    for sweep, present in enumerate(coefficients):
        for name in PARTS:
            part = getattr(present, name)
            if sweep == 0:
                parts[name] = part.new_empty((sweeps, *part.shape), dtype=torch.float32)
            parts[name][sweep] = part
    return Coefficients(**parts)


def by_sweep(coefficients: Coefficients) -> Iterator[Coefficients]:
    """The coefficients after every sweep, in float64."""
    parts = (getattr(coefficients, name) for name in PARTS)
    for own in zip(*parts, strict=True):
        yield Coefficients(*(part.double() for part in own))


def coefficients_to_arrays(coefficients: Coefficients) -> dict[str, np.ndarray]:
    """Arrays by name."""
    return {name: getattr(coefficients, name).cpu().numpy() for name in PARTS}


def coefficients_from_arrays(
    arrays: Mapping[str, np.ndarray], device: torch.device
) -> Coefficients:
    """Restore coefficients from the result of `coefficients_to_arrays`."""
    return Coefficients(*(torch.from_numpy(arrays[name].copy()).to(device) for name in PARTS))


class LatentDegrees:
    """u of the samples of every fold, and its Gibbs updates given W and Sigma.

    Args:
        logical_labels: which labels are relevant.
        start: initial weights, which must be feasible.
        floor: phi.
        threshold: T, or None where labels only order the degrees.
        ordering_only: samples whose labels only order the degrees; None if there are none.
    """

    def __init__(
        self,
        logical_labels: Relevant,
        start: Weights,
        floor: float,
        threshold: float | None,
        ordering_only: Bool[Tensor, "folds samples"] | None = None,
    ) -> None:
        self._relevant = logical_labels
        # Added to or subtracted from a weight, these exclude it from an extreme without a branch.
        self._if_irrelevant = torch.zeros_like(start).masked_fill_(~logical_labels, torch.inf)
        self._if_relevant = torch.zeros_like(start).masked_fill_(logical_labels, torch.inf)
        self.floor, self.threshold, self.ordering_only = floor, threshold, ordering_only
        # What a weight adds to the room of `weight_bounds`: its odds, or -1 if it is irrelevant.
        odds = 0.0 if threshold is None else (1 - threshold) / threshold
        self._room = logical_labels.to(start.dtype).mul_(odds + 1).sub_(1)
        self.w = start.clone()
        self.u = torch.log(start - floor)

    def sweep(self, means: Weights, coefficients: Coefficients, uniforms: Weights) -> None:
        """Draw u of each label in turn, given those of the others.

        The limits of a weight depend on a sum and on extremes of the others. These are kept as
        running values, over the labels before it, which are new, and over the labels after it,
        which are old.

        Args:
            means: mu of every u.
            coefficients: W and Sigma.
            uniforms: uniform numbers on [0, 1), one for each draw.
        """
        factors, deviations = coefficients.conditional()
        labels = self.u.shape[1]
        zero = torch.zeros_like(self.u[:, 0])
        infinity = zero + torch.inf
        after = [(zero, infinity, -infinity)]
        for label in range(labels - 1, 0, -1):
            after.append(self._with_label(label, *after[-1]))
        before = (zero, infinity, -infinity)
        residuals = self.u - means
        for label in range(labels):
            low, high = self._limits(label, before, after[labels - 1 - label])
            shift = torch.bmm(factors[:, label, None], residuals)[:, 0]
            mean = means[:, label]
            u = truncated_normal(
                mean - shift, deviations[:, label, None], low, high, uniforms[:, label]
            )
            self.u[:, label] = u
            torch.sub(u, mean, out=residuals[:, label])
            w = torch.exp(u, out=self.w[:, label])
            if self.floor:
                w += self.floor
            before = self._with_label(label, *before)

    def _with_label(
        self, label: int, room: Tensor, smallest_relevant: Tensor, largest_irrelevant: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sum and the extremes of `weight_bounds` with one more label."""
        w = self.w[:, label]
        return (
            torch.addcmul(room, w, self._room[:, label]),
            torch.minimum(smallest_relevant, w + self._if_irrelevant[:, label]),
            torch.maximum(largest_irrelevant, w - self._if_relevant[:, label]),
        )

    def _limits(self, label: int, before: tuple, after: tuple) -> tuple[Tensor, Tensor]:
        """Return the limits of u of a label."""
        masks = self._if_irrelevant[:, label], self._if_relevant[:, label]
        smallest = torch.minimum(before[1], after[1])
        largest = torch.maximum(before[2], after[2])
        if self.threshold is None:
            low, high = ordering_bounds(*masks, smallest, largest)
        else:
            room = before[0] + after[0]
            low, high = weight_bounds(*masks, room, smallest, largest, self.threshold)
            if self.ordering_only is not None:
                low_ordered, high_ordered = ordering_bounds(*masks, smallest, largest)
                low = torch.where(self.ordering_only, low_ordered, low)
                high = torch.where(self.ordering_only, high_ordered, high)
        if self.floor:
            low, high = low - self.floor, high - self.floor
        # The present value is feasible, and rounding must not exclude it.
        u = self.u[:, label]
        return (
            torch.minimum(low.clamp_min_(0).log_(), u),
            torch.maximum(high.clamp_min_(0).log_(), u),
        )

    def scale(self, factors: Float[Tensor, " folds"], candidates: Bool[Tensor, " folds"]) -> Tensor:
        """Multiply u of each fold by its factor where all its samples stay feasible.

        Args:
            factors: g of each fold.
            candidates: which folds to try.

        Returns:
            Which folds were scaled.
        """
        scaled = torch.zeros_like(candidates)
        folds = candidates.nonzero()[:, 0]
        for part in (slice(0, SAMPLES_TRIED_FIRST), slice(SAMPLES_TRIED_FIRST, None)):
            if len(folds) and self.u[0, 0, part].numel():
                w = self.floor + (factors[folds, None, None] * self.u[folds, :, part]).exp()
                ordering_only = self.ordering_only
                feasible = is_feasible(
                    w,
                    self._relevant[folds, :, part].to(w.dtype),
                    self.threshold,
                    None if ordering_only is None else ordering_only[folds, part],
                )
                folds = folds[feasible.all(dim=1)]
        scaled[folds] = True
        self.u[folds] *= factors[folds, None, None]
        self.w[folds] = self.floor + self.u[folds].exp()
        return scaled

    def distributions(self) -> Weights:
        """D = w / sum(w)."""
        return self.w / self.w.sum(dim=1, keepdim=True)


class CoefficientUpdates:
    """Draws of W, Sigma and lambda given u, and the scale moves.

    Args:
        representation: [1, f] of the training samples, folds x samples x (1 + features).
        labels: number of labels c.
        scale_prior: tau, the scale of the half-normal prior of the overall deviation.
        generators: one per fold.
        sweeps: number of draws.
    """

    def __init__(
        self,
        representation: Float[Tensor, "folds samples columns"],
        labels: int,
        scale_prior: float,
        generators: Sequence[np.random.Generator],
        sweeps: int,
    ) -> None:
        self.representation, self.labels, self.scale_prior = representation, labels, scale_prior
        _, samples, columns = representation.shape
        self._gram = representation.mT @ representation
        prior_degrees = DEGREES_PER_LABEL * labels
        degrees = samples + prior_degrees - np.arange(labels)
        precision_shape = PRECISION_PRIOR[0] + (columns - 1) * labels / 2
        scale_shape = (prior_degrees * labels + 1) / 2
        # With many labels the normal numbers of all sweeps take much memory. They are drawn when
        # their sweep comes, by generators that stand where they begin.
        self._shapes = (columns, labels), (labels, labels)
        self._normal_generators: list[list[np.random.Generator]] = []
        drawn = []
        for generator in generators:
            own = []
            for shape in self._shapes:
                own.append(deepcopy(generator))
                for _ in range(sweeps):
                    generator.standard_normal(shape)
            self._normal_generators.append(own)
            drawn.append(
                (
                    np.sqrt(generator.chisquare(degrees, (sweeps, labels))),
                    generator.standard_gamma(precision_shape, sweeps),
                    generator.standard_gamma(scale_shape, sweeps),
                    generator.standard_normal((sweeps, len(SCALE_MOVES))),
                    np.log(1 - generator.random((sweeps, 1 + len(SCALE_MOVES)))),
                )
            )
        # The sweeps are the first axis.
        self._diagonal, self._gammas, self._scale_gammas, self._moves, self._log_uniforms = (
            torch.from_numpy(np.stack(part, axis=1)).to(representation.device)
            for part in zip(*drawn, strict=True)
        )

    def _normals(self) -> list[Tensor]:
        """The normal numbers of W and of Sigma, for the next sweep of each fold."""
        return [
            torch.from_numpy(
                np.stack([own[number].standard_normal(shape) for own in self._normal_generators])
            ).to(self.representation.device)
            for number, shape in enumerate(self._shapes)
        ]

    def start(self, u: Weights, variances: Float[Tensor, " folds"]) -> Coefficients:
        """The ridge mean of W, Sigma = variance I, lambda = n / 10."""
        folds, samples, _ = self.representation.shape
        precision = u.new_full((folds,), samples / 10)
        root = torch.eye(self.labels, dtype=u.dtype, device=u.device).repeat(folds, 1, 1)
        factor, projected = self._normal_equations(u, self._ridge(precision))
        weights = torch.cholesky_solve(projected, factor)
        deviation = variances.sqrt()[:, None, None]
        return Coefficients(weights, root / deviation, variances, precision)

    def _ridge(self, precision: Tensor) -> Float[Tensor, "folds columns"]:
        """Prior precisions of the rows of W."""
        ridge = precision[:, None].repeat(1, self._gram.shape[1])
        ridge[:, 0] = INTERCEPT_PRECISION
        return ridge

    def _normal_equations(self, u: Weights, ridge: Tensor) -> tuple[Tensor, Tensor]:
        """The Cholesky factor of F'F + ridge, and F'U."""
        factor = torch.linalg.cholesky(self._gram + torch.diag_embed(ridge))
        return factor, self.representation.mT @ u.mT

    def draw(self, sweep: int, u: Weights, present: Coefficients) -> Coefficients:
        """Draw a, then Sigma and W together, accepted by the half-normal, and then lambda.

        Args:
            sweep: number of the sweep, from 0.
            u: log weights of the training samples.
            present: the coefficients of the sweep before.
        """
        ridge = self._ridge(present.precision)
        factor, projected = self._normal_equations(u, ridge)
        mean = torch.cholesky_solve(projected, factor)
        # U'U - M'F'U as a sum of squares, because the difference would lose digits.
        residuals = u - (self.representation @ mean).mT
        scatter = residuals @ residuals.mT + (mean.mT * ridge[:, None]) @ mean
        scale = 2 * self._scale_gammas[sweep] / (present.inverse_root**2).sum(dim=(1, 2))
        scatter.diagonal(dim1=1, dim2=2).add_(JITTER + scale[:, None])
        # Sigma^-1 = H H' is a Wishart draw by Bartlett's decomposition, H = C^-T T, S = C C'.
        lower = torch.linalg.cholesky(scatter)
        normals, below = self._normals()
        bartlett = below.tril_(-1) + torch.diag_embed(self._diagonal[sweep])
        inverse_root = torch.linalg.solve_triangular(lower.mT, bartlett, upper=True)
        root = torch.linalg.solve_triangular(bartlett.mT, lower, upper=True, left=False)
        noise = torch.linalg.solve_triangular(factor.mT, normals, upper=True)
        variance = (root**2).sum(dim=(1, 2)) / self.labels
        accepted = self._log_uniforms[sweep][:, 0] <= self._log_half_normal(
            variance
        ) - self._log_half_normal(present.variance)
        chosen = accepted[:, None, None]
        weights = torch.where(chosen, mean + noise @ root.mT, present.weights)
        inverse_root = torch.where(chosen, inverse_root, present.inverse_root)
        rate = PRECISION_PRIOR[1] + ((weights[:, 1:] @ inverse_root) ** 2).sum(dim=(1, 2)) / 2
        has_features = weights.shape[1] > 1
        return Coefficients(
            weights,
            inverse_root,
            torch.where(accepted, variance, present.variance),
            self._gammas[sweep] / rate if has_features else present.precision,
        )

    def move_scale(self, sweep: int, degrees: LatentDegrees, present: Coefficients) -> Coefficients:
        """Try (u, W, Sigma) -> (g u, g W, g^2 Sigma) for g of several sizes."""
        for number, deviation in enumerate(SCALE_MOVES):
            log_g = deviation * self._moves[sweep][:, number]
            g = log_g.exp()
            variance = present.variance
            log_ratio = (
                self._log_half_normal(g**2 * variance) - self._log_half_normal(variance) + log_g
            )
            accepted = self._log_uniforms[sweep][:, 1 + number] <= log_ratio
            scaled = degrees.scale(g, accepted)
            g = torch.where(scaled, g, torch.ones_like(g))
            factor = g[:, None, None]
            present = Coefficients(
                present.weights * factor,
                present.inverse_root / factor,
                variance * g**2,
                present.precision,
            )
        return present

    def _log_half_normal(self, variance: Tensor) -> Tensor:
        return -variance / (2 * self.scale_prior**2)


def uniforms(seeds: Sequence[int], labels: int, samples: int, device: torch.device) -> Weights:
    """Uniform numbers of one sweep; those of a sample do not depend on the samples after it.

    Args:
        seeds: seeds of the folds in this sweep.
        labels: number of labels c.
        samples: number of samples of each fold.
        device: where to draw.
    """
    drawn = torch.empty((len(seeds), samples, labels), dtype=torch.float64, device=device)
    for fold, seed in enumerate(seeds):
        generator = torch.Generator(device).manual_seed(seed)
        torch.rand((samples, labels), generator=generator, out=drawn[fold])
    return drawn.mT.contiguous()


def fit_coefficients(
    degrees: LatentDegrees,
    representation: Float[Tensor, "folds samples columns"],
    scale_prior: float,
    start_variances: Float[Tensor, " folds"],
    seeds: Sequence[np.random.SeedSequence],
    sweeps: int,
    on_sweep: Callable[[], None],
) -> Iterator[Coefficients]:
    """Sample u of the training samples and the coefficients.

    Args:
        degrees: latent degrees of the training samples at their start; changed in place.
        representation: [1, f] of the training samples.
        scale_prior: tau, the scale of the half-normal prior of the overall deviation.
        start_variances: of every log weight in the first sweep.
        seeds: one per fold.
        sweeps: number of sweeps.
        on_sweep: called after each sweep.

    Yields:
        The coefficients after every sweep.
    """
    own = [spawned(seed, 2) for seed in seeds]
    updates = CoefficientUpdates(
        representation,
        degrees.u.shape[1],
        scale_prior,
        [np.random.default_rng(seed) for seed, _ in own],
        sweeps,
    )
    streams = sweep_seeds([seed for _, seed in own], sweeps)
    coefficients = updates.start(degrees.u, start_variances)
    for sweep in range(sweeps):
        degrees.sweep(
            (representation @ coefficients.weights).mT.contiguous(),
            coefficients,
            uniforms(streams[sweep], *degrees.u.shape[1:], degrees.u.device),
        )
        coefficients = updates.draw(sweep, degrees.u, coefficients)
        coefficients = updates.move_scale(sweep, degrees, coefficients)
        on_sweep()
        yield coefficients


def sample_distributions(
    degrees: LatentDegrees,
    representation: Float[Tensor, "folds samples columns"],
    coefficients: Iterable[Coefficients],
    seeds: Sequence[np.random.SeedSequence],
    sweeps: int,
    burn_in: int,
    on_sweep: Callable[[], None],
) -> Iterator[Weights]:
    """Sample D of further samples along the coefficients of the training.

    Args:
        degrees: latent degrees of the samples at their start; changed in place.
        representation: [1, f] of the samples.
        coefficients: coefficients after every sweep of the training.
        seeds: one per fold.
        sweeps: number of sweeps.
        burn_in: sweeps before the first draw that is yielded.
        on_sweep: called after each sweep.

    Yields:
        D of the samples, sweep by sweep.
    """
    streams = sweep_seeds(seeds, sweeps)
    for sweep, present in enumerate(coefficients):
        degrees.sweep(
            (representation @ present.weights).mT.contiguous(),
            present,
            uniforms(streams[sweep], *degrees.u.shape[1:], degrees.u.device),
        )
        on_sweep()
        if sweep >= burn_in:
            yield degrees.distributions()


def sweep_seeds(seeds: Sequence[np.random.SeedSequence], sweeps: int) -> list[list[int]]:
    """A seed for every sweep and fold, of 63 bits, as torch takes them."""
    states = [seed.generate_state(sweeps, np.uint64) >> np.uint64(1) for seed in seeds]
    return [[int(state[sweep]) for state in states] for sweep in range(sweeps)]
