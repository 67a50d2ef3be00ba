"""What was found by looking, one example each."""

from pathlib import Path
from typing import Any

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.profile import Prices
from esg.core.catalog.shipped import DEFAULT
from esg.core.messages.codec import to_bytes
from esg.core.messages.commands import StartTask
from esg.core.messages.events import RequestArrived
from esg.core.scheduler.scheduler import build_scheduler
from esg.core.scheduler.settings import SchedulerSettings
from esg.errors import Rejected
from esg.limits import LAST_TASK, LAST_TASK_BELIEVED, LONGEST_TASK_US, LONGEST_US, MOST_STAGES
from esg.local.run_directory import RunDirectory
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import Exhausted, refusal
from esg.runtime.security.tls import authorities
from esg.runtime.security.tokens import read_entries
from esg.runtime.settings_file import Settings
from esg.runtime.token_bucket import TokenBuckets
from esg.runtime.wire.convert import news_from_wire, order_from_wire, order_to_wire
from esg.units import DAY_S, seconds
from tests.support.controller_peers import joined
from tests.support.small_catalog import SMALL


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 5000, "a = " + "{a=" * 5000])
def test_toml_that_python_itself_gives_up_on_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text(text, "ascii")
    for read in (load_catalog, read_entries, lambda path: Settings({}, path)):
        with pytest.raises(Rejected, match=r"not (valid )?TOML"):
            read(file)


@pytest.mark.parametrize("key", ["folder", "profile", "handler"])
def test_a_path_that_no_file_can_have_is_refused(key: str, tmp_path: Path) -> None:
    file = tmp_path / "catalog.toml"
    said = {"folder": "", "profile": DEFAULT.parent / "depth.toml", "handler": ""}
    said[key] = r"a\u0000b.py:Handler"
    text = "\n".join(f'{name} = "{value}"' for name, value in said.items() if value)
    numbers = "cold_start_ms = 1\ninput_mb = 1\nmemory_mb = 1"
    file.write_text(f'extends = "default"\n[functions.depth]\n{text}\n{numbers}\n')
    with pytest.raises(Rejected, match=f"functions.depth.{key}: no such file"):
        load_catalog(file)


def test_a_refusal_does_not_repeat_a_long_name(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("a" * 10_000 + " = 1", "ascii")
    with pytest.raises(Rejected) as refused:
        Settings({}, file)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "[]", "{}", "7"])
def test_a_record_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mesh.json").write_text(text, "ascii")
    with pytest.raises(Rejected, match="if no mesh runs there, delete it"):
        RunDirectory(tmp_path).read()


def test_words_between_certificates_may_be_in_any_language(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("# Autorität\n-----BEGIN CERTIFICATE-----\nnichts\n", "utf-8")
    with pytest.raises(Rejected, match="no certificates in PEM"):
        authorities([file])


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (wire.InvokerNote(joined=wire.Inventory(vcpus=-1)), "vcpus is -1"),
        (wire.InvokerNote(joined=wire.Inventory(vcpus=10**9)), "vcpus is 1000000000"),
        (
            wire.InvokerNote(
                joined=wire.Inventory(vcpus=1, running=[wire.RunningTask(task="t", vcpus=2)])
            ),
            "more vCPUs than there are",
        ),
        (
            wire.InvokerNote(
                inventory=wire.Inventory(running=[wire.RunningTask(task="t", slices=[0])])
            ),
            "slices that are not there",
        ),
        (
            wire.InvokerNote(
                joined=wire.Inventory(slices=[wire.Slice()], running=[wire.RunningTask(slices=[0])])
            ),
            "one of its tasks has no name",
        ),
        (
            wire.InvokerNote(
                inventory=wire.Inventory(slices=[wire.Slice(resident=["a"], loading=["a"])])
            ),
            "one is there twice",
        ),
        (wire.InvokerNote(finished=wire.TaskFinished(task="t", running_us=-7)), "running_us is -7"),
        (
            wire.InvokerNote(finished=wire.TaskFinished(task="t", running_us=2**50)),
            "running_us is 1125899906842624",
        ),
        (wire.InvokerNote(failed=wire.TaskFailed(task="t" * 1000)), "a name of 1000 characters"),
    ],
)
def test_an_invoker_cannot_say_what_cannot_be(note: wire.InvokerNote, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        news_from_wire(note, "n0")


def ordered(**fields: Any) -> wire.Order:
    return wire.Order(start=wire.TaskOrder(**{"task": "t1", **fields}))


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (ordered(task=""), "task '' has no number"),
        (ordered(task="t-1"), "task 't-1' has no number"),
        (ordered(task="t\u00b2"), "has no number"),
        (ordered(task=f"t{2**64}"), "the number of a task is 18446744073709551616"),
        (ordered(config=model.Config(vcpus=-1)), "vcpus is -1"),
        (ordered(slices=[0, 0]), "one slice is there twice"),
        (wire.Order(warm=wire.Instance(function="f" * 301)), "a name of 301 characters"),
    ],
)
def test_a_controller_cannot_order_what_cannot_be(order: wire.Order, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        order_from_wire(order, "n0")


@pytest.mark.parametrize("said", [LAST_TASK_BELIEVED - 1, LAST_TASK_BELIEVED + 1, LAST_TASK])
def test_after_any_number_that_a_node_has_heard_of_there_are_others(said: int) -> None:
    """It may be wrong, or lie; the tasks after it must not be refused by everybody."""
    scheduler = build_scheduler(SMALL, SchedulerSettings())
    note = joined(latest_task=said)
    scheduler.handle(0, news_from_wire(note, "n0"))
    commands = scheduler.handle(0, RequestArrived(request="r1", application="thumb"))
    (start,) = [command for command in commands if isinstance(command, StartTask)]
    number = int(start.order.task[1:])
    assert min(said, LAST_TASK_BELIEVED) < number < LAST_TASK / 2
    order_from_wire(order_to_wire(start.order), "n0")


def test_what_the_longest_tasks_cost_can_be_written_down() -> None:
    """Of a request with as many stages as there can be, on all of a large node."""
    prices, stages = Prices(), MOST_STAGES
    cost_pusd = stages * prices.task_cost_pusd(Config(1, 256, 64), 2 * LONGEST_TASK_US)
    assert to_bytes(cost_pusd) == str(cost_pusd).encode()


def test_a_reason_is_as_long_as_can_be_read() -> None:
    failed = wire.TaskFailed(task="t", reason="x" * 10**6)
    assert len(news_from_wire(wire.InvokerNote(failed=failed), "n0").reason) == 2000


@pytest.mark.parametrize("per_s", [1 / DAY_S, 5e-324])
def test_a_time_to_wait_can_be_told_however_long_it_is(per_s: float) -> None:
    """A payload of as many bytes as a number has room for, and a quota of one a day."""
    wait_s = TokenBuckets(lambda: 0.0).take("alice", 2.0**50, per_s=per_s, size=1)
    told = refusal(wire.Refused, Exhausted("later", seconds(wait_s)))
    assert 0 < told.retry_after_us <= LONGEST_US
