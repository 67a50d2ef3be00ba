import grpc
import pytest

from esg.errors import Bug, Fault, Rejected
from mesh.problems import (
    AlreadyExists,
    Exhausted,
    Forbidden,
    NotFound,
    Unauthenticated,
    Unavailable,
    problem,
    status,
)

PAIRS = [
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (Exhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Rejected, grpc.StatusCode.INVALID_ARGUMENT),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
]


@pytest.mark.parametrize(("kind", "code"), PAIRS)
def test_a_problem_survives_the_wire(kind: type[Exception], code: grpc.StatusCode) -> None:
    assert status(kind("the words")) == (code, "the words")
    back = problem(code.value[0], "the words")
    assert (type(back), str(back)) == (kind, "the words")


def test_a_fault_may_work_the_next_time() -> None:
    assert status(Fault("gone"))[0] is grpc.StatusCode.UNAVAILABLE


def test_a_kind_of_its_own_is_told_as_what_it_is_a_kind_of() -> None:
    class Late(Exhausted):
        pass

    assert status(Late("x")) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "x")


@pytest.mark.parametrize("error", [Bug("secret"), KeyError("secret")])
def test_our_own_mistakes_tell_a_client_nothing(error: Exception) -> None:
    code, words = status(error)
    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in words


def test_an_unheard_of_code_is_the_worlds_fault() -> None:
    assert type(problem(grpc.StatusCode.INTERNAL.value[0], "x")) is Fault
