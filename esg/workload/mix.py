"""Which application a request is for: by weight, or by the function a trace names.

The paper draws the application uniformly at random; a `Mix` draws it by weight, from a stream of
its own, so that the instants of a run stay the same whatever the mix is.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from random import Random

from esg.errors import Rejected
from esg.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class Mix:
    """Applications and their weights, in the order given. Only the ratios of weights count."""

    applications: tuple[str, ...]
    weights: tuple[float, ...]

    @staticmethod
    def uniform(applications: Sequence[str]) -> "Mix":
        if not applications:
            raise Rejected("no applications to send requests to; name at least one")
        return Mix(tuple(applications), (1.0,) * len(applications))

    def draws(self, seed: int | str) -> Iterator[str]:
        """Endless choices; with equal weights they are the paper's, uniformly at random.

        >>> from itertools import islice
        >>> list(islice(parse_mix("a=3,b=1").draws(seed=1), 8))
        ['b', 'a', 'a', 'a', 'a', 'b', 'a', 'a']
        """
        random = Random(f"{seed}:applications")
        if len(set(self.weights)) == 1:
            while True:
                yield random.choice(self.applications)
        sums = list(accumulate(self.weights))
        while True:
            yield random.choices(self.applications, cum_weights=sums)[0]

    def index_of(self, function: str) -> int:
        """The application that stands for a function of a trace, as a place in `applications`.

        Weighted rendezvous hashing: the same function always meets the same application, on every
        machine; adding an application moves only the functions that it takes over. Weights share
        out *functions*, and a few functions make most of the calls in real traces, so shares of
        calls can differ much from the weights.

        >>> mix = Mix.uniform(["a", "b"])
        >>> [mix.index_of(function) for function in ("resize", "login", "report")]
        [0, 1, 0]
        """
        return _index_of(self.applications, self.weights, function)


@lru_cache(maxsize=4096)
def _index_of(applications: tuple[str, ...], weights: tuple[float, ...], function: str) -> int:
    def distance(index: int) -> tuple[float, int]:
        key = f"{function}\0{applications[index]}".encode()
        raw = int.from_bytes(blake2b(key, digest_size=8).digest())
        return -math.log((raw + 1) / 2**64) / weights[index], index

    return min(range(len(applications)), key=distance)


def parse_mix(text: str, known: Collection[str] | None = None) -> Mix:
    """`NAME=WEIGHT,NAME=WEIGHT`; weights are positive numbers. `known` names are all there are.

    >>> parse_mix("image-classification=3, depth-recognition=0.5").weights
    (3.0, 0.5)
    >>> parse_mix("image-classification")
    Traceback (most recent call last):
    esg.errors.Rejected: mix: 'image-classification' has no weight; write image-classification=1
    """
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, weight = (piece.strip() for piece in part.partition("="))
        if not name:
            raise Rejected(f"mix {text!r}: a name is missing; write NAME=WEIGHT,NAME=WEIGHT")
        if known is not None and name not in known:
            raise Rejected(f"mix: {did_you_mean('application', name, known)}")
        if not equals:
            raise Rejected(f"mix: {name!r} has no weight; write {name}=1")
        if name in weights:
            raise Rejected(f"mix: {name!r} appears twice; keep one of them")
        weights[name] = _weight(name, weight)
    return Mix(tuple(weights), tuple(weights.values()))


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        raise Rejected(f"mix: {name!r} has the weight {text!r}; give a positive number") from None
    if not 1e-9 <= weight <= 1e9:
        raise Rejected(
            f"mix: {name!r} has the weight {text}; give a positive number, or leave {name} out"
        )
    return weight
