"""The policies that ESG is compared with serve live, too, and their journals replay."""

import asyncio
from pathlib import Path

import pytest

from esg.core.catalog.file import load_catalog
from esg.emulator.history import replay_strictly
from esg.runtime.trained_configs import learnt_text
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import photo, scene


@pytest.mark.parametrize("policy", ["esg", "infless", "fast-gshare", "orion", "aquatope"])
async def test_a_mesh_runs_with_any_policy(
    policy: str, launch: Launch, catalog: Path, tmp_path: Path
) -> None:
    known, file = load_catalog(catalog), tmp_path / "learnt.json"
    learnt = {
        name: {stage.name: stage.function.profile.minimum for stage in each.stages.values()}
        for name, each in known.applications.items()
    }
    file.write_text(learnt_text(learnt))
    more = {"controller": {"trained": str(file)}}
    async with launch(policy=policy, more=more) as (mesh, client):
        pictures = [client.submit("photo", b"%d" % n) for n in range(5)]
        scenes = [client.submit("scene", b"%d" % n) for n in range(5)]
        answers = await asyncio.gather(*pictures, *scenes)
        journal = mesh.journal
    assert [answer.outputs for answer in answers] == [
        *(photo(b"%d" % n) for n in range(5)),
        *(scene(b"%d" % n) for n in range(5)),
    ]
    assert journal is not None
    replayed = replay_strictly(journal, known)  # the journal has what was learnt
    assert replayed.report.summary()["requests"] == len(answers)
