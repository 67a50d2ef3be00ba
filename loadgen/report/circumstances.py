"""The circumstances of a run, which tell its results from those of another one."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from esg.loadgen.target import Target
from esg.reporting.provenance import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """When a run was, by which command, against which mesh."""

    target: Target
    provenance: Provenance

    @property
    def slos_ms(self) -> dict[str, float]:
        return {name: one.slo_ms for name, one in self.target.applications.items()}

    def document(self) -> dict[str, Any]:
        return {
            **self.provenance.document(),
            "gateway": self.target.gateway,
            "policy": self.target.status.policy,
            "nodes": [
                {"vcpus": node.vcpus, "vgpus": len(node.slices)}
                for node in self.target.status.nodes
            ],
            "slo_ms": self.slos_ms,
        }

    def facts(self) -> dict[str, str]:
        nodes = self.target.status.nodes
        sizes = Counter((len(node.slices), node.vcpus) for node in nodes)
        each = ", ".join(
            f"{count} with {vgpus} vGPUs and {vcpus} vCPUs"
            for (vgpus, vcpus), count in sorted(sizes.items())
        )
        return {
            **self.provenance.facts(),
            "Gateway": self.target.gateway,
            "Policy": self.target.status.policy,
            "Nodes": f"{len(nodes)}: {each}" if nodes else "none",
        }
