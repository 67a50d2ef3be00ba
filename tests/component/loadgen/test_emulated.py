"""A mesh as the emulator sees it, and its figures as those of a live run."""

from dataclasses import replace

import pytest

from esg.client import ApplicationInfo, MeshStatus, PipelineStage
from esg.client.status import NodeStatus, SliceStatus
from esg.core.catalog.file import load_catalog
from esg.errors import Rejected
from esg.loadgen.emulated import conditions_at_home, conditions_of, run_emulated
from esg.loadgen.outlook import outlook
from esg.loadgen.target import Target
from esg.runtime.settings import DEFAULT_POLICY, ControllerSettings
from esg.units import ms, seconds
from esg.workload.plan import Workload

CATALOG = load_catalog()
STAGES = (
    PipelineStage("deblur", name="deblur"),
    PipelineStage("super-resolution", ("deblur",), "super-resolution"),
    PipelineStage("depth", ("super-resolution",), "depth"),
)
ALONE_MS = CATALOG.applications["depth-recognition"].alone_us / 1000


def target(
    *, nodes: int = 3, resident: tuple[str, ...] = (), scale: float = 1.0, policy: str = "esg"
) -> Target:
    application = ApplicationInfo(
        name="depth",
        stages=STAGES,
        slo_ms=900.0 * scale,
        version=1,
        alone_ms=ALONE_MS * scale,
        fastest_ms=1.0,
    )
    part = SliceStatus(task="", function="", resident=resident, loading=())
    status = MeshStatus(
        uptime_ms=1.0,
        policy=policy,
        under_way=0,
        tasks=0,
        jobs=0,
        cold_starts=0,
        local_transfers=0,
        remote_transfers=0,
        queues=(),
        nodes=tuple(
            NodeStatus(node=f"node{n}", vcpus=8, vcpus_free=8, slices=(part,) * 2)
            for n in range(nodes)
        ),
        applications=(),
    )
    return Target("127.0.0.1:1", {"depth": application}, status)


def test_nodes_and_policy_are_those_of_the_mesh() -> None:
    _, scenario = conditions_of(target(policy="orion"), CATALOG)
    assert (scenario.nodes, scenario.vcpus, scenario.vgpus) == (3, 8, 2)
    assert (scenario.policy, scenario.warm_start) == ("orion", False)
    assert conditions_of(target(resident=("depth",)), CATALOG)[1].warm_start


def test_applications_and_slos_are_those_of_the_mesh() -> None:
    catalog, scenario = conditions_of(target(), CATALOG)
    assert list(catalog.applications) == ["depth"]
    assert catalog.applications["depth"].slo_us == 900_000
    assert scenario.time_scale == 1.0


def test_a_mesh_where_time_goes_faster_is_noticed() -> None:
    catalog, scenario = conditions_of(target(scale=0.1), CATALOG)
    assert scenario.time_scale == 0.1
    assert catalog.applications["depth"].slo_us == pytest.approx(900_000, rel=1e-3)


def test_a_mesh_without_nodes_cannot_be_emulated() -> None:
    with pytest.raises(Rejected, match="no nodes"):
        conditions_of(target(nodes=0), CATALOG)


def test_emulation_without_a_mesh_is_of_the_mesh_that_would_be_started() -> None:
    _, scenario = conditions_at_home(CATALOG)
    assert scenario.policy == DEFAULT_POLICY
    assert (scenario.nodes, scenario.vcpus, scenario.vgpus) == (16, 16, 7)


def test_applications_share_the_mesh_as_a_controller_has_them() -> None:
    controller = ControllerSettings()
    for _, scenario in (conditions_of(target(), CATALOG), conditions_at_home(CATALOG)):
        assert scenario.fair_quantum_us == ms(controller.fair_quantum_ms) > 0
        assert scenario.max_wait_us == seconds(controller.max_wait_s) > 0
        assert scenario.max_waiting == controller.max_waiting > 0
        assert scenario.max_waiting_in_all == controller.max_waiting_in_all > 0


def test_emulated_figures_count_all_arrivals() -> None:
    catalog, scenario = conditions_at_home(CATALOG)
    arrivals = list(Workload(rate="normal", requests=40).arrivals(list(catalog.applications)))
    outcome = run_emulated(catalog, scenario, arrivals)
    assert outcome.total.requests == 40
    assert outcome.total.not_done == 0
    assert sum(f.requests for f in outcome.by_application.values()) == 40
    jobs = sum(len(catalog.applications[a.application].stages) for a in arrivals)
    assert outcome.total.batches.total() == jobs
    assert outcome.total.served.cost_pusd > 0
    assert 100 < (outcome.total.percentiles_ms()["p50"] or 0) < 3000


def test_payload_sizes_are_the_first_functions_times_a_scale() -> None:
    assert target().payload_sizes(CATALOG, 0.5) == {"depth": 550_000}


def test_nodes_have_the_slices_that_the_mesh_tells_of() -> None:
    """Those of kinds that the catalog does not know are left out: nothing is planned on them."""
    mesh = target()
    kinds = [("", "3g.40gb"), ("", "3g.40gb"), ("", "cpu-1")]
    nodes = tuple(
        replace(node, slices=tuple(replace(node.slices[0], kind=kind) for kind in own))
        for node, own in zip(mesh.status.nodes, kinds, strict=True)
    )
    mixed = replace(mesh, status=replace(mesh.status, nodes=nodes))
    catalog, scenario = conditions_of(mixed, CATALOG)
    assert [(one.count, one.slices) for one in scenario.cluster.classes] == [
        (2, ("", "3g.40gb")),
        (1, ("",)),
    ]
    arrivals = Workload(rate="5/s", requests=20, seed=0).arrivals(["depth"])
    assert run_emulated(catalog, scenario, arrivals).total.not_done == 0
    found = outlook(Workload(rate="5/s"), mixed, CATALOG)
    assert "6 vGPUs (3 x 1g.10gb, 2 x 3g.40gb, 1 x cpu-1)" in found.text
    alike = outlook(Workload(rate="5/s"), target(), CATALOG)
    assert found.most_per_s > alike.most_per_s


def test_a_mesh_whose_slices_the_catalog_does_not_know_cannot_be_emulated() -> None:
    mesh = target()
    part = replace(mesh.status.nodes[0].slices[0], kind="cpu-1")
    nodes = tuple(replace(node, slices=(part,)) for node in mesh.status.nodes)
    with pytest.raises(Rejected, match=r"knows nothing of the mesh's slices \(cpu-1\)"):
        conditions_of(replace(mesh, status=replace(mesh.status, nodes=nodes)), CATALOG)
