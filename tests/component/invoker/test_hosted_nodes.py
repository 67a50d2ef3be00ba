"""Several nodes in one process: each with a name, a session, a store and slices of its own."""

import asyncio
import os
from pathlib import Path

import pytest

from esg.core.catalog.file import load_catalog
from esg.errors import Rejected
from esg.invoker.hosted_node import NodeHost, hosted_names
from esg.runtime.security.tls import ON_THIS_MACHINE
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.storage.redis_store import RedisStore
from tests.support.emulated_process import write_catalog


def host(tmp_path: Path, **settings: object) -> NodeHost:
    file = write_catalog(tmp_path)
    own = InvokerSettings(
        **{"node": "a,b", "slices": "emulated:2", "store": str(tmp_path / "store"), **settings}  # type: ignore[arg-type]
    )
    return NodeHost(
        own=own,
        common=CommonSettings(catalog=str(file)),
        catalog=load_catalog(file),
        functions="digest",
        security=ON_THIS_MACHINE,
        remote=RedisStore("redis://127.0.0.1:1/0", prefix="t", ttl_s=1),
        names=hosted_names(own),
    )


async def test_nodes_of_a_process_share_neither_slices_nor_data(tmp_path: Path) -> None:
    process = host(tmp_path)
    async with process.hosted("a") as first, process.hosted("b") as second:
        slices = [one.node._slices for one in (first, second)]
        named = [[await part.name() for part in parts] for parts in slices]
        assert named == [["a/0", "a/1"], ["b/0", "b/1"]]
        function = next(iter(process.catalog.functions))
        await slices[0][1].load(function)
        resident = [[await part.resident() for part in parts] for parts in slices]
        assert resident == [[[], [function]], [[], []]]
        first.node.store.local.put("r1", "s", b"x")
        assert (tmp_path / "store" / "a").is_dir()
        assert second.node.store.local.usage()[0] == 0
        assert (first.node.pool.invoker, second.node.pool.invoker) == ("a", "b")
    assert not list((tmp_path / "store" / "a").iterdir())


async def test_cpu_parts_are_emulated_where_slices_are(tmp_path: Path) -> None:
    async with host(tmp_path).hosted("a") as hosted:
        emulated = hosted.node._execution.emulated
        assert emulated is not None
        async with asyncio.timeout(60):
            await emulated.take(1)
        (timer,) = (alarm._timer for alarm in emulated._alarms)
        os.fstat(timer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(timer)


async def test_nodes_with_real_slices_need_a_process_each(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="nodes that share a process have emulated slices"):
        async with host(tmp_path, slices="cpu:1").hosted("a"):
            pass


@pytest.mark.parametrize("names", ["a,a", "a,", "a,b/c", "a,.."])
def test_every_node_has_a_name_of_its_own_that_is_good_for_a_folder(names: str) -> None:
    with pytest.raises(Rejected, match=r"invoker\.node"):
        hosted_names(InvokerSettings(node=names))
