"""Constrained Bayesian optimisation: the cheapest point that keeps a limit, from noisy trials.

For any problem over the unit cube whose trials give a cost, and a violation that is to be zero or
less. This is Aquatope's method (paper, section "Comparison Counterparts"):

    1. bootstrap: try random points;
    2. model what was seen: two Gaussian processes, one for the cost, one for the violation;
    3. try the few points that promise most: constrained noisy expected improvement;
    4. drop the samples that all others contradict, and go on with 2.

*Expected improvement* of a point is how much cheaper than the best point so far it is on average,
nothing being lost where it is dearer; *constrained*, it is weighed with the probability that the
point keeps the limit. Trials being *noisy*, which point is the best so far is itself uncertain. So
the true values of all samples are drawn several times from the processes; in each draw one sample
is the best for certain and the textbook formula holds; the draws are averaged (Letham and others,
"Constrained Bayesian Optimization with Noisy Experiments", 2019). The second point of a round is
chosen as if the first had been tried: every draw goes on to imagine what that trial would show.

The answer is the sample with the lowest cost that keeps the limit, or else the least violation;
both as the processes have it, which see through a lucky trial.

The processes are scikit-learn's; written out here is only what it does not have, and all of that
follows from its kernel matrix. Nearly all the time goes into tuning the kernels, so that is done
every few rounds only.

Caveat: a generator in the same state gives the same answer on the same machine. On another one
linear algebra may round differently, and the search may take another way.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from esg.emulator.training.train import Budget, Floats

Bools = NDArray[np.bool_]

Z_95 = 1.96
"""Half the width of a 95 % interval, in standard deviations."""

SMOOTHNESS = 2.5
"""Of the Matern kernel: twice differentiable, the usual choice for what is smooth but not too."""

SIGNAL, SIGNAL_BOUNDS = 1.0, (1e-2, 1e3)
REACH, REACH_BOUNDS = 1.0, (0.1, 30.0)
NOISE, NOISE_BOUNDS = 1e-2, (1e-6, 1.0)
"""Where tuning starts and between which bounds it stays: variances in units of the samples' own,
and for each dimension the distance (the cube is 1 wide) over which values have to do with one
another."""

JITTER = 1e-6
"""A variance that is added where noise is taken away, so that matrices stay invertible."""

ELITE = 5
"""Around how many of the best samples candidates are looked for."""

CHANGES, STEP = 2, 0.2
"""How they are found: about so many coordinates are changed, by so much (one standard deviation).
Half of the candidates are found in this way; the others may be anywhere."""


class Problem(Protocol):
    """What is to be optimised."""

    dimensions: int

    def snap(self, points: Floats) -> Floats:
        """The points that are tried in place of these: the nearest ones that exist."""
        ...

    def run(self, points: Floats, rng: Generator) -> tuple[Floats, Floats]:
        """Try each point once: costs and violations."""
        ...


class Surrogate:
    """A Gaussian process of one quantity, in units in which its samples have mean 0 and spread 1.

    Tuned anew, or with the kernel and the units of an earlier one.
    """

    _mean: float
    _spread: float
    _process: Any  # scikit-learn comes without types

    def __init__(
        self, points: Floats, values: Floats, like: "Surrogate | None" = None, *, tune: bool = True
    ) -> None:
        if like is None or tune:
            self._mean, self._spread = float(values.mean()), float(values.std()) or 1.0
        else:
            self._mean, self._spread = like._mean, like._spread
        self.points = points
        self._values = (values - self._mean) / self._spread
        kernel = _untuned_kernel(points.shape[1]) if like is None else like._process.kernel_
        optimizer = "fmin_l_bfgs_b" if tune else None
        self._process = GaussianProcessRegressor(kernel, alpha=JITTER, optimizer=optimizer)
        with warnings.catch_warnings():
            # a parameter at its bound is a dimension that does not matter, or a lack of noise
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._process.fit(points, self._values)
        self.signal: Any = self._process.kernel_.k1
        self._noise = float(self._process.kernel_.k2.noise_level)

    def in_units(self, value: float) -> float:
        return (value - self._mean) / self._spread

    def means(self) -> Floats:
        """What is believed of each sample: less extreme than what was seen if trials are noisy."""
        means: Floats = self._process.predict(self.points)
        return means

    def draws(self, count: int, rng: Generator) -> Floats:
        """Values that the samples may truly have; a column is one draw."""
        means, covariance = self._process.predict(self.points, return_cov=True)
        covariance[np.diag_indices_from(covariance)] += JITTER - self._noise
        normals = rng.standard_normal((len(means), count))
        values: Floats = means[:, None] + np.linalg.cholesky(covariance) @ normals
        return values

    def contradicted(self) -> Bools:
        """Which samples lie outside the 95 % interval that a process without them predicts.

        No process is fitted without them. With the kernel matrix K, noise included, leaving out
        sample i predicts it with variance 1 / K^-1[i, i] and an error of (K^-1 y)[i] / K^-1[i, i]
        (Rasmussen and Williams, "Gaussian Processes for Machine Learning", section 5.4.2).
        """
        kernel = self._process.kernel_(self.points)
        kernel[np.diag_indices_from(kernel)] += JITTER
        inverse = np.linalg.inv(kernel)
        variances = 1 / np.diag(inverse)
        errors = variances * (inverse @ self._values)
        outside: Bools = np.abs(errors) > Z_95 * np.sqrt(variances)
        return outside


def _untuned_kernel(dimensions: int) -> Any:
    reaches = np.full(dimensions, REACH)
    return ConstantKernel(SIGNAL, SIGNAL_BOUNDS) * Matern(
        reaches, REACH_BOUNDS, nu=SMOOTHNESS
    ) + WhiteKernel(NOISE, NOISE_BOUNDS)


class Imagined:
    """What candidates may be like, given each draw of the samples' true values.

    One mean per candidate and draw; the variances are the same in all draws.
    """

    def __init__(self, surrogate: Surrogate, draws: Floats, candidates: Floats) -> None:
        self._signal = surrogate.signal
        self._candidates = candidates
        kernel = self._signal(surrogate.points)
        kernel[np.diag_indices_from(kernel)] += JITTER
        self._near: Floats = self._signal(candidates, surrogate.points)
        self._weights: Floats = np.linalg.solve(kernel, self._near.T)
        self._tried: list[tuple[Floats, float]] = []
        self.means: Floats = self._weights.T @ draws
        known = np.einsum("cs,sc->c", self._near, self._weights)
        self._variances: Floats = np.maximum(self._signal.diag(candidates) - known, JITTER)

    @property
    def spreads(self) -> Floats:
        """Standard deviations, as a column."""
        return np.sqrt(self._variances)[:, None]

    def imagine(self, tried: int, rng: Generator) -> Floats:
        """Draw what a trial of a candidate may show, and learn from it; the values drawn."""
        variance = float(self._variances[tried])
        noises = rng.standard_normal(self.means.shape[1]) * np.sqrt(variance)
        values: Floats = self.means[tried] + noises
        shared = self._covariances(tried)
        self.means = self.means + np.outer(shared / variance, noises)
        self._variances = np.maximum(self._variances - shared**2 / variance, JITTER)
        self._tried.append((shared, variance))
        return values

    def _covariances(self, one: int) -> Floats:
        """Of all candidates with one, given the samples and the trials that were imagined."""
        alike = self._signal(self._candidates, self._candidates[one : one + 1])[:, 0]
        covariances: Floats = alike - self._near @ self._weights[:, one]
        for shared, variance in self._tried:
            covariances = covariances - shared * shared[one] / variance
        return covariances


def expected_improvement(best: Floats, means: Floats, spreads: Floats) -> Floats:
    """By how much a normal number is below `best` on average, counting 0 where it is above."""
    z = (best - means) / spreads
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    gain: Floats = spreads * (z * ndtr(z) + density)
    return gain


def best_first(costs: Floats, violations: Floats) -> NDArray[np.intp]:
    """The lowest cost that keeps the limit comes first, and the least violation after all that."""
    return np.lexsort((costs, np.maximum(violations, 0)))


@dataclass(slots=True)
class TriedPoints:
    """Points that were tried, and what came of it."""

    points: Floats
    costs: Floats
    violations: Floats

    def joined(self, other: "TriedPoints") -> "TriedPoints":
        return TriedPoints(
            np.concatenate((self.points, other.points)),
            np.concatenate((self.costs, other.costs)),
            np.concatenate((self.violations, other.violations)),
        )

    def only(self, these: Bools) -> "TriedPoints":
        return TriedPoints(self.points[these], self.costs[these], self.violations[these])


class Beliefs:
    """The two processes after some trials; tuned anew, or as tuned as earlier ones were."""

    cost: Surrogate
    violation: Surrogate

    def __init__(
        self, samples: TriedPoints, like: "Beliefs | None" = None, *, tune: bool = True
    ) -> None:
        cost, violation = (None, None) if like is None else (like.cost, like.violation)
        self._samples = samples
        self.cost = Surrogate(samples.points, samples.costs, cost, tune=tune)
        self.violation = Surrogate(samples.points, samples.violations, violation, tune=tune)
        self._limit = self.violation.in_units(0)

    def without_the_contradicted(self) -> "Beliefs":
        """What is believed if samples that contradict all others are left out.

        Only for now: each round judges all samples again, and those that follow may bear one out.
        Were it left out for good, one in twenty sound ones would go in every round, the rest would
        seem to vary less and less, and four in five would be gone in the end.
        """
        contradicted = self.cost.contradicted() | self.violation.contradicted()
        if not contradicted.any() or contradicted.all():
            return self
        return Beliefs(self._samples.only(~contradicted), self, tune=False)

    def best_first(self) -> Floats:
        """The samples' points in the order of what is believed of them."""
        order = best_first(self.cost.means(), self.violation.means() - self._limit)
        points: Floats = self._samples.points[order]
        return points

    def choose(self, candidates: Floats, count: int, draws: int, rng: Generator) -> Floats:
        """The candidates to try next.

        As long as a draw has no sample that keeps the limit, there is no cost to improve upon: what
        is sought in that draw is less violation.
        """
        costs, violations = self.cost.draws(draws, rng), self.violation.draws(draws, rng)
        lowest = np.where(violations <= self._limit, costs, np.inf).min(axis=0)
        least = violations.min(axis=0)
        cost = Imagined(self.cost, costs, candidates)
        violation = Imagined(self.violation, violations, candidates)
        chosen: list[int] = []
        for _ in range(count):
            found = np.isfinite(lowest)
            cheaper = expected_improvement(np.where(found, lowest, 0), cost.means, cost.spreads)
            kept = ndtr((self._limit - violation.means) / violation.spreads)
            nearer = expected_improvement(least, violation.means, violation.spreads)
            acquisition = np.where(found, cheaper * kept, nearer).mean(axis=1)
            chosen.append(int(acquisition.argmax()))
            new_cost = cost.imagine(chosen[-1], rng)
            new_violation = violation.imagine(chosen[-1], rng)
            better = np.where(new_violation <= self._limit, new_cost, np.inf)
            lowest, least = np.minimum(lowest, better), np.minimum(least, new_violation)
        points: Floats = candidates[chosen]
        return points


def optimise(
    problem: Problem, budget: Budget, rng: Generator, progress: Callable[[int, int], None]
) -> Floats:
    """The best point; `progress` hears how many trials are done, and of how many."""
    # one thread is as fast on matrices of this size, and leaves the others to other processes
    with threadpool_limits(1):
        samples = _tried(problem, rng.random((budget.bootstrap, problem.dimensions)), rng)
        beliefs = Beliefs(samples)
        for done in range(budget.rounds):
            progress(budget.bootstrap + done * budget.per_round, budget.trials)
            sound = beliefs.without_the_contradicted()
            candidates = _candidates(problem, sound.best_first()[:ELITE], budget.candidates, rng)
            chosen = sound.choose(candidates, budget.per_round, budget.draws, rng)
            samples = samples.joined(_tried(problem, chosen, rng))
            last = done + 1 == budget.rounds
            beliefs = Beliefs(samples, beliefs, tune=last or (done + 1) % budget.tune_every == 0)
        progress(budget.trials, budget.trials)
        best: Floats = beliefs.without_the_contradicted().best_first()[0]
        return best


def _tried(problem: Problem, points: Floats, rng: Generator) -> TriedPoints:
    points = problem.snap(points)
    return TriedPoints(points, *problem.run(points, rng))


def _candidates(problem: Problem, elite: Floats, count: int, rng: Generator) -> Floats:
    """Points to choose from: half of them anywhere, half near the best."""
    shape = (count // 2, problem.dimensions)
    anywhere = rng.random(shape)
    changed = rng.random(shape) < CHANGES / problem.dimensions
    near = rng.choice(elite, len(anywhere)) + changed * rng.normal(0, STEP, shape)
    both = np.concatenate((anywhere, np.clip(near, 0, 1)))
    return np.unique(problem.snap(both), axis=0)
