"""A live mesh whose plans follow what tasks take."""

from pathlib import Path

from esg.core.catalog.file import load_catalog
from esg.emulator.history import replay_strictly
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import photo, status_of
from tests.support.waiting import until


async def test_a_mesh_learns_what_its_stages_really_take(launch: Launch, catalog: Path) -> None:
    """An emulated stage of 5 ms takes more than that, once orders and data have travelled."""
    async with launch(nodes=1, warm_start=True) as (mesh, client):

        async def corrected() -> bool:
            assert (await client.submit("photo", b"a picture")).outputs == photo(b"a picture")
            profiles = (await status_of(client)).profiles
            return any(one.function == "resize" and one.planned > 1 for one in profiles)

        await until(corrected)
        (resize,) = [one for one in (await status_of(client)).profiles if one.function == "resize"]
        assert (resize.batch, resize.profiled_ms) == (1, 5)
        assert resize.tasks >= 8
        assert resize.measured > 1
        assert (await client.submit("photo", b"another")).outputs == photo(b"another")
        journal = mesh.journal
        assert journal is not None
    assert replay_strictly(journal, load_catalog(catalog)).report.arrived >= 9
