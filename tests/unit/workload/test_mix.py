"""Which application a request is for."""

from collections import Counter
from itertools import islice

import pytest

from esg.errors import Rejected
from esg.workload.mix import Mix, parse_mix

APPLICATIONS = ["image-classification", "depth-recognition"]


def test_requests_are_shared_out_by_weight() -> None:
    mix = parse_mix("image-classification=3,depth-recognition=1")
    drawn = Counter(islice(mix.draws(seed=7), 8_000))
    assert drawn["image-classification"] == pytest.approx(6_000, rel=0.03)
    assert drawn.total() == 8_000


def test_equal_weights_are_the_same_as_none() -> None:
    weighted, uniform = parse_mix("a=2,b=2"), Mix.uniform(["a", "b"])
    assert list(islice(weighted.draws(3), 50)) == list(islice(uniform.draws(3), 50))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("image-clasification=3", "did you mean 'image-classification'?"),
        ("image-classification", "has no weight; write image-classification=1"),
        ("image-classification=", "weight ''; give a positive number"),
        ("image-classification=many", "weight 'many'; give a positive number"),
        ("image-classification=0", "give a positive number, or leave image-classification out"),
        ("image-classification=-1", "give a positive number"),
        ("image-classification=nan", "give a positive number"),
        ("image-classification=inf", "give a positive number"),
        ("image-classification=1,image-classification=2", "appears twice"),
        ("image-classification=1,", "a name is missing"),
        ("=1", "a name is missing"),
        ("", "a name is missing"),
    ],
)
def test_a_mix_that_cannot_be_meant_is_refused(text: str, says: str) -> None:
    with pytest.raises(Rejected) as refused:
        parse_mix(text, known=APPLICATIONS)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_mix_of_no_applications_is_refused() -> None:
    with pytest.raises(Rejected, match="name at least one"):
        Mix.uniform([])


def test_a_function_keeps_its_application_when_another_one_is_added() -> None:
    functions = [f"owner/app/{number}" for number in range(2_000)]
    two, three = Mix.uniform(["a", "b"]), Mix.uniform(["a", "b", "c"])
    moved = 0
    for function in functions:
        before, after = two.index_of(function), three.index_of(function)
        assert after in (before, 2)
        moved += after == 2
    assert moved == pytest.approx(2_000 / 3, rel=0.1)


def test_a_function_keeps_its_application_when_the_mix_is_written_in_another_order() -> None:
    one, other = parse_mix("a=2,b=1,c=1"), parse_mix("c=1,a=2,b=1")
    for number in range(200):
        function = f"f{number}"
        here, there = one.index_of(function), other.index_of(function)
        assert one.applications[here] == other.applications[there]


def test_functions_are_shared_out_by_weight() -> None:
    mix = parse_mix("a=3,b=1")
    taken = Counter(mix.index_of(f"f{number}") for number in range(4_000))
    assert taken[0] == pytest.approx(3_000, rel=0.05)


def test_the_map_of_functions_is_the_same_on_every_machine() -> None:
    mix = Mix.uniform(["a", "b", "c"])
    assert [mix.index_of(f"f{number}") for number in range(12)] == PINNED


PINNED = [0, 0, 1, 0, 2, 1, 0, 1, 0, 0, 0, 0]
