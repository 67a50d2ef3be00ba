"""How fleets are written down."""

import yaml

from esg.core.catalog.slice_kinds import SliceKind
from esg.emulator.sizing.cheapest_fleet import Fleet, Kinds, NodeShape
from esg.emulator.sizing.fleet_files import cluster_toml, mig_parted_yaml

KINDS = {
    "": SliceKind(name="1g.10gb", memory_mb=10_000, usd_per_hour=1),
    "3g.40gb": SliceKind(name="3g.40gb", memory_mb=40_000, usd_per_hour=3),
}
SMALL: Kinds = ("",) * 7
MIXED: Kinds = ("3g.40gb", "", "", "", "")


def shape(gpus: int) -> NodeShape:
    return NodeShape(
        gpus=gpus, least_vcpus=4, most_vcpus=64, gpu_usd_per_hour=7, vcpu_usd_per_hour=0.1
    )


def two_layouts(gpus_per_node: int) -> Fleet:
    return shape(gpus_per_node).fleet({SMALL: 3, MIXED: 3}, vcpus=20)


def test_each_sort_of_node_has_a_configuration_with_all_its_gpus() -> None:
    text = mig_parted_yaml(two_layouts(2), KINDS)
    configs = yaml.safe_load(text)["mig-configs"]
    assert list(configs) == ["esg-0", "esg-1", "esg-2"]
    (small,) = configs["esg-0"]
    assert small == {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}
    first, second = configs["esg-1"]
    assert (first["devices"], second["devices"]) == ([0], [1])
    assert second["mig-devices"] == {"3g.40gb": 1, "1g.10gb": 4}
    assert "-c esg-2    # 1 node\n" in text


def test_nodes_that_are_all_alike_have_one_configuration() -> None:
    text = mig_parted_yaml(shape(2).fleet({MIXED: 8}, vcpus=20), KINDS)
    assert list(yaml.safe_load(text)["mig-configs"]) == ["esg"]
    assert "#   nvidia-mig-parted apply -f mig-parted.yaml -c esg    # 4 nodes\n" in text


def test_a_cluster_extends_a_shipped_catalog_or_is_a_section_of_another() -> None:
    fleet = two_layouts(1)
    extending = cluster_toml(fleet, KINDS, "default")
    assert extending == (
        '# Written by esg size.\nextends = "default"\n\n[cluster]\nclasses = [\n'
        '    { count = 3, vcpus = 20, slices = "7x1g.10gb" },\n'
        '    { count = 3, vcpus = 20, slices = "3g.40gb+4x1g.10gb" },\n]\n'
    )
    section = cluster_toml(fleet, KINDS, None)
    assert 'kind = "1g.10gb"\nslice_memory_mb = 10000\nclasses = [\n' in section
    assert "extends" not in section


def test_a_resized_fleet_keeps_its_proportions() -> None:
    fleet = shape(1).fleet({SMALL: 6, MIXED: 3}, vcpus=20)
    assert shape(1).resized(fleet, nodes=8, vcpus=24) == shape(1).fleet({SMALL: 5, MIXED: 3}, 24)
    assert shape(1).resized(fleet, nodes=3, vcpus=20) == shape(1).fleet({SMALL: 2, MIXED: 1}, 20)
    assert shape(1).resized(fleet, nodes=0, vcpus=20) is None
    assert shape(1).resized(fleet, nodes=9, vcpus=65) is None
