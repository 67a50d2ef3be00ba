"""What the mesh's own processes say to each other, and tensors: understood, or refused in words."""

from hypothesis import given
from hypothesis import strategies as st

from esg.protos import controller_v1_pb2 as wire
from esg.runtime.wire.convert import brought_from_wire, news_from_wire, order_from_wire
from esg.tensors import elements_of
from tests.fuzz.budget import fuzzed, gives_a_value_or_is_refused
from tests.fuzz.messages import any_message


def as_tensor(elements: list[bytes]) -> bytes:
    return b"".join(len(e).to_bytes(4, "little") + e for e in elements)


@fuzzed()
@given(st.one_of(st.binary(max_size=60), st.lists(st.binary(max_size=9)).map(as_tensor)))
def test_a_tensor_of_byte_strings(raw: bytes) -> None:
    gives_a_value_or_is_refused(lambda: elements_of(raw))


@fuzzed()
@given(any_message(wire.InvokerNote))
def test_news_of_an_invoker(note: wire.InvokerNote) -> None:
    gives_a_value_or_is_refused(lambda: news_from_wire(note, "n0"))
    gives_a_value_or_is_refused(lambda: brought_from_wire(note))


@fuzzed()
@given(any_message(wire.Order))
def test_an_order_to_an_invoker(order: wire.Order) -> None:
    gives_a_value_or_is_refused(lambda: order_from_wire(order, "n0"))
