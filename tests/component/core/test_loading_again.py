"""Loading a model again: on a node that has had it before, its files are in memory."""

from dataclasses import replace

from esg.core.durations import Durations, DurationSettings
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, InstanceReady
from esg.core.pool.pool import Pool
from esg.core.scheduler.scheduler import build_scheduler
from esg.core.scheduler.settings import SchedulerSettings
from esg.emulator.world import World
from esg.units import ms, seconds
from tests.support.desk import arrived
from tests.support.small_catalog import DETECT, SMALL

QUICK = replace(DETECT, reload_us=ms(20))
CATALOG = replace(
    SMALL,
    functions=SMALL.functions | {"detect": QUICK},
    applications={
        name: application.with_functions(lambda f: QUICK if f.name == "detect" else f)
        for name, application in SMALL.applications.items()
    },
)


def test_a_model_comes_back_from_the_memory_of_its_node_faster_than_from_disk() -> None:
    loaded: list[tuple[str, int]] = []

    def observe(now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, InstanceReady):
            loaded.append((event.function, event.loading_us))

    settings = SchedulerSettings(policy="esg", follow_profiles=True, prewarm=False)
    scheduler = build_scheduler(CATALOG, settings)
    # one slice, with room for one of the two
    pool = Pool(CATALOG, "i0", vcpus=4, memories_mb=(500,))
    durations = Durations(CATALOG, 0, DurationSettings(noise=0))
    world = World(scheduler, {"i0": pool}, durations, observe=observe)
    world.tell(0, pool.joined())
    calls = [
        arrived("r1", "scan"),
        arrived("r2", "map"),
        arrived("r3", "scan"),
        arrived("r4", "map"),
    ]
    world.run((seconds(5 * number), call) for number, call in enumerate(calls))
    assert loaded == [
        ("detect", ms(200)),
        ("depth", ms(300)),
        ("detect", ms(20)),
        ("depth", ms(300)),  # the catalog says nothing of loading it again
    ]
    assert scheduler.state.reloads_us == {"detect": ms(20), "depth": ms(300)}
    assert scheduler.state.cold_starts_us == {"detect": ms(200), "depth": ms(300)}
