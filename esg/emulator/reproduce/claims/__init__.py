"""What the paper claims, what came out here, and whether that is the same.

A claim is *reproduced* when ours has the same sign and is within the paper's range, or beyond it in
ESG's favour; otherwise it is *not reproduced*, and a sentence says why. The paper's figures are
bars that cannot be read off, so only what its text and tables say is compared. Rivals enter with
the reading that does best here (`experiments.SYSTEMS`). Verdicts go by means over all seeds, except
that whoever is `level` with another is not beaten by it, and that whoever is slower within the
margin is not slowest.
"""

from esg.core.catalog.model import Catalog
from esg.emulator.reproduce.claims import analysis, end_to_end
from esg.emulator.reproduce.claims.claim import Claim
from esg.emulator.reproduce.experiments import Results
from esg.emulator.reproduce.overhead import Overhead


def judge(results: Results, overhead: Overhead, catalog: Catalog) -> list[Claim]:
    """Every claim, in the order of the paper."""
    return [
        *end_to_end.hit_rates(results, catalog),
        end_to_end.highest(results),
        *end_to_end.costs(results),
        *end_to_end.by_application(results, catalog),
        end_to_end.close_to_slo(results, catalog),
        *end_to_end.rival_latencies(results, catalog),
        *analysis.plan_misses(results),
        analysis.orion_trade_off(results, catalog),
        *analysis.search_times(overhead),
        analysis.k(results),
        *analysis.ablation(results),
    ]
