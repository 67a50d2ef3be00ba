import json
from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.local.options import Chosen, MeshOptions
from esg.runtime.settings import (
    CommonSettings,
    ControllerSettings,
    GatewaySettings,
    InvokerSettings,
)


def test_nodes_are_as_large_as_the_papers_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    own = Chosen(MeshOptions(), {}).settings.of(InvokerSettings)
    assert (own.vcpus, own.slices) == (16, "emulated:7")
    own = Chosen(MeshOptions(vcpus=2, vgpus=3), {}).settings.of(InvokerSettings)
    assert (own.vcpus, own.slices) == (2, "emulated:3")
    file = tmp_path / "mesh.toml"
    file.write_text('[invoker]\nslices = "127.0.0.1:8001"\n', "utf-8")
    chosen = Chosen(MeshOptions(nodes=1, settings_file=file), {"ESG_INVOKER_VCPUS": "5"})
    own = chosen.settings.of(InvokerSettings)
    assert (own.vcpus, own.slices) == (5, "127.0.0.1:8001")


def test_nodes_with_real_slices_have_the_machines_own_cores() -> None:
    own = Chosen(MeshOptions(slices="cpu:2"), {}).settings.of(InvokerSettings)
    assert (own.vcpus, own.slices) == (0, "cpu:2")


@pytest.mark.parametrize("slices", ["mig", "gpu0:8001,gpu0:8011"])
def test_nodes_do_not_share_real_slices(slices: str) -> None:
    with pytest.raises(Rejected, match=f"2 nodes cannot share the slices {slices}; say --nodes 1"):
        Chosen(MeshOptions(nodes=2, slices=slices), {})
    Chosen(MeshOptions(nodes=1, slices=slices), {})


def test_slices_that_make_no_sense_are_refused_before_anything_starts() -> None:
    with pytest.raises(Rejected, match=r"invoker\.slices: 'cpu:x': the number of slices"):
        Chosen(MeshOptions(slices="cpu:x"), {})


def test_slices_are_emulated_or_not() -> None:
    with pytest.raises(Rejected, match="give either vgpus or slices, not both"):
        Chosen(MeshOptions(vgpus=2, slices="cpu:2"), {})


def test_resumed_mesh_needs_a_journal() -> None:
    assert Chosen(MeshOptions(resume=True), {}).resume
    for options, environ in (
        (MeshOptions(resume=True, journal=False), {}),
        (MeshOptions(resume=True), {"ESG_CONTROLLER_JOURNAL": ""}),
    ):
        with pytest.raises(Rejected, match="no going on without a journal"):
            Chosen(options, environ)


def test_only_a_resumed_mesh_salvages_a_journal() -> None:
    assert Chosen(MeshOptions(resume=True, salvage=True), {}).salvage
    with pytest.raises(Rejected, match="nothing to salvage for a mesh that begins anew"):
        Chosen(MeshOptions(salvage=True), {})


def test_options_left_out_are_as_the_environment_says() -> None:
    environ = {"ESG_CONTROLLER_POLICY": "orion", "ESG_GATEWAY_PORT": "7", "ESG_TIME_SCALE": "0.5"}
    chosen = Chosen(MeshOptions(port=None), environ)
    assert chosen.settings.of(ControllerSettings).policy == "orion"
    assert chosen.settings.of(GatewaySettings).port == 7
    assert chosen.common.time_scale == 0.5


def test_options_win_over_the_environment() -> None:
    options = MeshOptions(policy="infless", scale=0.1, warm_start=True, journal=False, port=8)
    environ = {
        "ESG_CONTROLLER_POLICY": "orion",
        "ESG_TIME_SCALE": "0.5",
        "ESG_GATEWAY_PORT": "7",
        "ESG_CONTROLLER_JOURNAL": "there",
    }
    chosen = Chosen(options, environ)
    assert chosen.settings.of(ControllerSettings).policy == "infless"
    assert chosen.settings.of(ControllerSettings).journal == ""
    assert chosen.common.time_scale == 0.1
    assert chosen.settings.of(GatewaySettings).port == 8
    assert chosen.settings.of(InvokerSettings).warm_start


def test_mesh_options_take_every_other_setting_too() -> None:
    more = {"controller": {"prewarm": False}, "common": {"drain_s": 1}}
    chosen = Chosen(MeshOptions(more=more), {})
    assert not chosen.settings.of(ControllerSettings).prewarm
    assert chosen.common.drain_s == 1


def test_paths_hold_wherever_a_child_looks_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mesh.toml").write_text("[gateway]\nburst = 1\n", "utf-8")
    options = MeshOptions(catalog=Path("catalog.toml"), settings_file=Path("mesh.toml"))
    environ = Chosen(options, {}).environ
    assert environ["ESG_CATALOG"] == str(tmp_path / "catalog.toml")
    assert environ["ESG_SETTINGS"] == str(tmp_path / "mesh.toml")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (MeshOptions(nodes=0), "nodes is 0; it must be from 1 to 1000"),
        (MeshOptions(gateways=0), "gateways is 0; it must be from 1 to 100"),
        (MeshOptions(vcpus=-1), "ESG_INVOKER_VCPUS: is -1"),
        (MeshOptions(more={"controller": {"prewram": 1}}), "did you mean 'prewarm'"),
        (MeshOptions(settings_file=Path("/nowhere/mesh.toml")), "cannot be read"),
    ],
)
def test_impossible_mesh_options_are_refused_before_anything_starts(
    options: MeshOptions, words: str
) -> None:
    with pytest.raises(Rejected) as refused:
        Chosen(options, {})
    assert words in str(refused.value)


def test_options_survive_json() -> None:
    options = MeshOptions(
        nodes=2, catalog=Path("a b.toml"), noise=0.0, more={"controller": {"k": 2}}
    )
    assert MeshOptions.read(json.loads(json.dumps(options.document()))) == options
    assert MeshOptions.read(MeshOptions().document()) == MeshOptions()


def test_passwords_are_not_shown() -> None:
    options = MeshOptions(redis_url="redis://me:secret@127.0.0.1:1/0")
    chosen = Chosen(options, {})
    assert "secret" not in json.dumps(chosen.document())
    assert chosen.settings.of(CommonSettings).redis_url == options.redis_url
