"""Constrained Bayesian optimisation: the cheapest point that keeps a limit, from noisy trials.

The method of Aquatope (paper, section "Comparison Counterparts") for any problem over the unit cube
whose trials give an objective, and a violation that is to be zero or less:

    1. bootstrap with random points;
    2. fit two Gaussian processes, one for the objective and one for the violation;
    3. try the few points with the highest constrained noisy expected improvement;
    4. drop the samples that the others contradict, and go on with 2.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    bootstrap: int = 100
    rounds: int = 50
    per_round: int = 5
    tune_every: int = 10
    candidates: int = 1000
    draws: int = 16
    loo: str = "all"
    final: str = "mean"
    ards: bool = True
    rehear: bool = False


class Surrogate:
    def __init__(self, points: Floats, values: Floats, earlier: "Surrogate | None" = None) -> None:
        tune = earlier is None or getattr(earlier, "stale", False)
        if tune:
            self.shift, self.scale = float(values.mean()), float(values.std()) or 1.0
        else:
            self.shift, self.scale = earlier.shift, earlier.scale
        kernel = earlier.kernel if earlier is not None else (
            ConstantKernel(1.0, (1e-2, 1e3)) * Matern(np.full(points.shape[1], 1.0), (0.1, 30.0), nu=2.5)
            + WhiteKernel(1e-2, (1e-6, 1.0)))
        gp = GaussianProcessRegressor(kernel, alpha=1e-8, optimizer="fmin_l_bfgs_b" if tune else None)
        self.points = points
        self.values = (values - self.shift) / self.scale
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            gp.fit(points, self.values)
        self.gp = gp
        self.kernel = gp.kernel_
        self.signal = gp.kernel_.k1
        self.noise = gp.kernel_.k2.noise_level
        self.limit = -self.shift / self.scale

    def loo_outside(self, width=1.96):
        k = self.kernel(self.points)
        k[np.diag_indices_from(k)] += 1e-8
        inverse = np.linalg.inv(k)
        var = 1 / np.diag(inverse)
        miss = inverse @ self.values * var
        return np.abs(miss) > width * np.sqrt(var)

    def mean(self, points):
        return self.gp.predict(points)

    def draw(self, n, rng):
        mean, cov = self.gp.predict(self.points, return_cov=True)
        cov[np.diag_indices_from(cov)] += 1e-6 - self.noise
        root = np.linalg.cholesky(cov)
        return mean[:, None] + root @ rng.standard_normal((len(mean), n))


class Imagined:
    def __init__(self, s: Surrogate, draws, cands):
        self.s = s
        k = s.signal(s.points)
        k[np.diag_indices_from(k)] += 1e-6
        self.cands = cands
        self.near = s.signal(cands, s.points)
        self.w = np.linalg.solve(k, self.near.T)
        self.means = self.w.T @ draws
        self.covs = []
        self.prior = s.signal.diag(cands)
        self.var = np.maximum(self.prior - np.einsum("ij,ji->i", self.near, self.w), 1e-12)

    def learn(self, j, rng):
        v = self.var[j] + 1e-6
        cov = self.s.signal(self.cands, self.cands[j : j + 1])[:, 0] - self.near @ self.w[:, j]
        for c, vv in self.covs:
            cov = cov - c * c[j] / vv
        val = self.means[j] + np.sqrt(v) * rng.standard_normal(self.means.shape[1])
        self.means = self.means + np.outer(cov / v, val - self.means[j])
        self.var = np.maximum(self.var - cov**2 / v, 1e-12)
        self.covs.append((cov, v))
        return val


def ei(best, means, std):
    z = (best - means) / std
    return std * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))


def optimise(problem, b: Budget, rng, progress=lambda d, t: None, log=None):
    total = b.bootstrap + b.rounds * b.per_round
    X = problem.snap(rng.random((b.bootstrap, problem.dimensions)))
    C, V = problem.run(X, rng)
    kept = np.ones(len(X), bool)
    age = 0
    cs = vs = None
    for r in range(b.rounds + 1):
        tune = r % b.tune_every == 0 or r == b.rounds
        if cs is not None:
            cs.stale = vs.stale = tune
        if b.rehear:
            kept[:] = True
        cs = Surrogate(X[kept], C[kept], cs)
        vs = Surrogate(X[kept], V[kept], vs)
        cs.stale = vs.stale = False
        if b.loo != "none":
            out = cs.loo_outside() | vs.loo_outside()
            idx = np.flatnonzero(kept)
            if b.loo == "new" and r > 0:
                out &= idx >= len(X) - b.per_round
            kept[idx[out]] = False
            cs = Surrogate(X[kept], C[kept], cs)
            vs = Surrogate(X[kept], V[kept], vs)
        if r == b.rounds:
            break
        dc, dv = cs.draw(b.draws, rng), vs.draw(b.draws, rng)
        mc, mv = cs.mean(cs.points), vs.mean(cs.points)
        order = np.lexsort((mc, np.maximum(mv - vs.limit, 0)))[:5]
        m = b.candidates // 2
        base = cs.points[rng.choice(order, m)]
        mask = rng.random(base.shape) < 2 / base.shape[1]
        loc = np.clip(base + mask * rng.normal(0, 0.2, base.shape), 0, 1 - 1e-9)
        cands = np.unique(problem.snap(np.vstack([rng.random((m, base.shape[1])), loc])), axis=0)
        ic, iv = Imagined(cs, dc, cands), Imagined(vs, dv, cands)
        ok = dv <= vs.limit
        some = ok.any(axis=0)
        best = np.where(ok, dc, np.inf).min(axis=0)
        least = dv.min(axis=0)
        new = []
        for _ in range(b.per_round):
            pof = ndtr((vs.limit - iv.means) / np.sqrt(iv.var)[:, None])
            gain = np.where(np.isfinite(best), ei(np.where(np.isfinite(best), best, 0.0), ic.means, np.sqrt(ic.var)[:, None]) * pof,
                            ei(least, iv.means, np.sqrt(iv.var)[:, None]))
            j = int(gain.mean(axis=1).argmax())
            new.append(j)
            vc, vv = ic.learn(j, rng), iv.learn(j, rng)
            best = np.where(vv <= vs.limit, np.minimum(best, vc), best)
            least = np.minimum(least, vv)
        P = cands[new]
        c, v = problem.run(P, rng)
        X, C, V = np.vstack([X, P]), np.append(C, c), np.append(V, v)
        kept = np.append(kept, np.ones(len(P), bool))
    if b.final == "mean":
        fc, fv = cs.mean(cs.points) , vs.mean(vs.points) - vs.limit
    else:
        fc, fv = cs.values, vs.values - vs.limit
    i = np.lexsort((fc, np.maximum(fv, 0)))[0]
    if log is not None:
        log.update(X=X, C=C, V=V, kept=kept, cs=cs, vs=vs)
    return cs.points[i]
