"""Applications that come and go: versions, requests under way, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from esg.core.catalog.model import Application, Catalog
from esg.core.messages.commands import (
    Command,
    WarmInstance,
)
from esg.core.messages.events import ApplicationRegistered, StageSpec
from esg.core.messages.outcome import Outcome
from esg.core.policies.esg import Engines, Esg
from esg.core.policies.placement import ranked_homes
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy, policy_maker
from esg.core.report import Report
from esg.core.scheduler.invariants import check
from esg.core.scheduler.scheduler import Scheduler
from esg.core.search import Engine
from esg.core.state.state import ApplicationVersions, Queue
from esg.errors import Bug, Rejected
from esg.units import ms
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    esg_policy,
    failed,
    finished,
    job,
    joined,
    refuse,
    registered,
    retired,
    start,
    stop,
    warm,
)
from tests.support.small_catalog import SMALL

ALL_LOADED = {0: ("detect", "resize", "label"), 1: ("detect", "resize", "label")}


def names(desk: Desk) -> set[str]:
    return set(desk.scheduler.catalog.applications) - set(SMALL.applications)


def slo_us(desk: Desk, name: str) -> int:
    application = desk.scheduler.current(name)
    assert application is not None
    return application.slo_us


def test_an_application_that_was_registered_serves_requests(desk: Desk) -> None:
    desk.at(0, joined("i0")).at(1, registered("tag", "resize", "label", slo_us=ms(500)))
    assert desk.orders == []
    assert desk.scheduler.version("tag") == 1
    desk.at(2, arrived("r1", "tag")).at(ms(50), finished("t1")).at(ms(90), finished("t2"))
    assert desk.orders == [
        start("t1", "tag/resize", "r1"),
        start("t2", "tag/label", job("r1", resize="i0")),
        answer("r1", application="tag", deadline_us=2 + ms(500)),
        discard("i0", "r1"),
    ]


def test_application_may_split_and_join_and_be_told_in_any_order(desk: Desk) -> None:
    stages = {"label": ("detect", "depth"), "depth": ("resize",), "detect": ("resize",)}
    desk.at(0, registered("views", stages={**stages, "resize": ()}))
    application = desk.scheduler.current("views")
    assert application is not None
    assert application.root == "resize"
    assert list(application.stages)[-1] == "label"


def test_an_slo_is_a_time_or_a_multiple_of_the_time_alone(desk: Desk) -> None:
    desk.at(0, registered("a", "resize", "label", slo_us=ms(77)))
    desk.at(0, registered("b", "resize", "label", slo_scale=1.5))
    desk.at(0, registered("c", "resize", "label"))
    assert [slo_us(desk, name) for name in "abc"] == [ms(77), ms(45), ms(30)]


def test_two_stages_may_run_the_same_function(desk: Desk) -> None:
    first = StageSpec(name="once", function="label")
    then = StageSpec(name="twice", function="label", after=("once",))
    desk.at(0, ApplicationRegistered(application="tags", stages=(first, then)))
    desk.at(0, joined("i0"), arrived("r1", "tags")).at(ms(20), finished("t1"))
    assert desk.new_orders == [start("t2", "tags/twice", job("r1", once="i0"), function="label")]


def test_requests_under_way_finish_with_the_version_they_began_with(desk: Desk) -> None:
    desk.at(0, joined("i0", resident=ALL_LOADED)).at(1, arrived("r1", "photo"))
    desk.at(2, registered("photo", "resize", slo_us=ms(100))).at(3, arrived("r2", "photo"))
    desk.at(ms(10), finished("t1")).at(ms(11), finished("t2"))
    desk.at(ms(110), finished("t3")).at(ms(130), finished("t4"))
    assert desk.orders == [
        start("t1", "photo/resize", "r1"),
        start("t2", "photo@2/resize", job("r2", publish=True), keep=False),
        start("t3", "photo/detect", job("r1", resize="i0")),
        answer("r2", application="photo@2", deadline_us=3 + ms(100)),
        discard("i0", "r2"),
        start("t4", "photo/label", job("r1", detect="i0")),
        answer("r1", application="photo", deadline_us=1 + ms(600)),
        discard("i0", "r1"),
    ]


def test_versions_are_counted(desk: Desk) -> None:
    assert [desk.scheduler.version(name) for name in ("photo", "tag")] == [1, 0]
    for version in (2, 3):
        desk.at(version, registered("photo", "resize"), registered("tag", "resize"))
        assert desk.scheduler.version("photo") == version
        assert desk.scheduler.version("tag") == version - 1
    assert names(desk) == {"photo@3", "tag@2"}


def test_jobs_of_two_versions_do_not_leave_as_one_task(desk: Desk) -> None:
    desk.at(0, arrived("r1"), arrived("r2"), registered("scan", "detect", slo_us=ms(300)))
    desk.at(1, arrived("r3"), arrived("r4")).at(2, joined("i0"))
    assert desk.orders == [
        start("t1", "scan/detect", "r1", "r2"),
        start("t2", "scan@2/detect", "r3", "r4"),
    ]


def test_lost_output_is_made_again_in_the_version_of_its_request(desk: Desk) -> None:
    desk.at(0, joined("i0"), arrived("r1", "photo"), registered("photo", "detect"))
    desk.at(ms(50), finished("t1")).at(ms(60), failed("t2", missing=("r1/resize",)))
    assert desk.new_orders == [start("t3", "photo/resize", "r1")]


def test_a_retired_application_takes_no_requests_and_finishes_those_it_has(desk: Desk) -> None:
    desk.at(0, joined("i0"), arrived("r1")).at(1, retired("scan"), arrived("r2"))
    assert desk.new_orders == [refuse("r2")]
    assert "unknown application 'scan'" in desk.new_orders[0].reason  # type: ignore[union-attr]
    assert desk.scheduler.current("scan") is None
    assert "scan" not in desk.scheduler.applications
    desk.at(ms(100), finished("t1"))
    assert desk.new_orders == [answer("r1", application="scan"), discard("i0", "r1")]


def test_a_name_that_comes_back_is_a_new_version(desk: Desk) -> None:
    desk.at(0, joined("i0"), arrived("r1"), retired("scan"), registered("scan", "label"))
    assert desk.scheduler.version("scan") == 2
    desk.at(1, arrived("r2"))
    assert desk.new_orders == [start("t2", "scan@2/label", "r2")]


def test_version_that_nobody_uses_is_forgotten_with_the_next_change(desk: Desk) -> None:
    desk.at(0, joined("i0"), registered("tag", "label"), arrived("r1", "tag"))
    desk.at(1, registered("tag", "resize"), registered("other", "resize"))
    assert names(desk) == {"tag", "tag@2", "other"}
    desk.at(ms(60), finished("t1"))
    assert names(desk) == {"tag", "tag@2", "other"}
    desk.at(ms(61), retired("other"))
    assert names(desk) == {"tag@2"}
    assert "tag/label" not in desk.scheduler.state.queues
    assert set(desk.scheduler.state.registrations.versions) == {"tag@2"}


def test_the_catalogs_own_applications_are_forgotten_too(desk: Desk) -> None:
    desk.at(0, retired("photo"), registered("scene", "resize"))
    assert "photo/resize" not in desk.scheduler.state.queues
    assert not {"photo", "scene"} & set(desk.scheduler.catalog.applications)
    assert set(desk.scheduler.applications) == {"thumb", "scan", "watch", "map", "scene"}


def test_a_name_that_was_forgotten_begins_anew(desk: Desk) -> None:
    desk.at(0, registered("tag", "label"), registered("tag", "resize"), retired("tag"))
    assert desk.scheduler.state.registrations.standings == {}
    desk.at(1, registered("tag", "detect"))
    assert desk.scheduler.version("tag") == 1


def test_a_version_outlives_the_task_that_nobody_waits_for(desk: Desk) -> None:
    desk.at(0, joined("i0"), registered("tag", "label"), arrived("r1", "tag"))
    desk.at(1, cancelled("r1"), retired("tag"))
    assert desk.new_orders == [stop("t1"), answer("r1", Outcome.CANCELLED)]
    assert names(desk) == {"tag"}
    desk.at(2, failed("t1", reason="stopped"), retired("map"))
    assert names(desk) == set()


def test_a_new_version_has_the_home_of_the_old_one() -> None:
    nodes = [f"i{number}" for number in range(20)]
    for stage in ("resize", "detect", "a@2"):
        homes = ranked_homes(f"photo/{stage}", nodes)
        assert ranked_homes(f"photo@2/{stage}", nodes) == homes
        assert ranked_homes(f"photos/{stage}", nodes) != homes


@pytest.mark.parametrize(("name", "ahead"), [("map", []), ("chart", [warm("depth", slice=1)])])
def test_calls_of_a_version_that_is_over_are_not_foreseen(
    foreseeing_desk: Desk, name: str, ahead: list[Command]
) -> None:
    """A call of `depth` every 200 ms keeps one instance busy, and those of two applications two;
    but a new version takes the place of the old one."""
    desk = foreseeing_desk.at(0, joined("i0"), arrived("r1", "map"))
    desk.at(ms(100), finished("t1")).at(ms(200), arrived("r2", "map"))
    desk.at(ms(250), registered(name, "depth")).at(ms(300), finished("t2"))
    desk.at(ms(400), arrived("r3", name)).at(ms(500), finished("t3"))
    assert "map" in desk.scheduler.catalog.applications
    assert warm("depth", slice=1) not in desk.orders
    desk.at(ms(600), arrived("r4", name))
    assert [order for order in desk.new_orders if isinstance(order, WarmInstance)] == ahead


def test_reports_are_by_plain_name() -> None:
    report, scheduler = Report(), Scheduler(SMALL, esg_policy(SMALL), policy_for=esg_policy)
    story = [joined("i0"), registered("scan", "label"), arrived("r1"), finished("t1")]
    for event in story:
        report.observe(0, event, scheduler.handle(0, event))
    assert list(report.applications) == ["scan"]
    assert report.applications["scan"].served.in_time == 1


def test_a_request_that_is_said_twice_is_reported_once() -> None:
    report, scheduler = Report(), Scheduler(SMALL, esg_policy(SMALL), policy_for=esg_policy)
    for event in [joined("i0"), arrived("r1"), arrived("r1"), finished("t1")]:
        report.observe(0, event, scheduler.handle(0, event))
    assert (report.arrived, report.summary()["slo_hit_rate"]) == (1, 1)


def test_engines_are_built_when_they_are_asked_for_and_stay_with_their_applications() -> None:
    # attack: B2
    built: list[str] = []

    class Counting(Engines):
        def build(self, application: Application) -> Engine:
            built.append(application.name)
            return super().build(application)

    engines = Counting("frontier", group_size=3)

    def policy_for(catalog: Catalog) -> Any:
        return Esg(catalog, engines, k=5)

    def decide(name: str) -> None:
        assert scheduler.policy._engines[name]  # type: ignore[attr-defined]

    scheduler = Scheduler(SMALL, policy_for(SMALL), policy_for=policy_for)
    assert built == []
    decide("photo")
    scheduler.handle(0, registered("tag", "label"))
    scheduler.handle(0, registered("photo", "label"))
    assert built == ["photo"]
    for name in ("tag", "photo@2", "tag"):
        decide(name)
    scheduler.handle(0, retired("scan"))
    decide("tag")
    assert built == ["photo", "tag", "photo@2"]


def test_policies_of_one_maker_share_engines() -> None:
    settings = PolicySettings(engine="astar", group_size=2)
    make = policy_maker("esg", settings)
    built = make(SMALL)._engines["photo"]  # type: ignore[attr-defined]
    assert make(SMALL)._engines["photo"] is built  # type: ignore[attr-defined]
    apart = policy("esg", SMALL, settings)
    assert apart._engines["photo"] is not built  # type: ignore[attr-defined]


def test_a_snapshot_with_changes_wants_a_policy_that_can_be_made_again() -> None:
    scheduler = Scheduler(SMALL, esg_policy(SMALL), policy_for=esg_policy)
    scheduler.handle(0, registered("tag", "label"))
    with pytest.raises(Rejected, match="policy_for"):
        Scheduler(SMALL, esg_policy(SMALL), snapshot=scheduler.snapshot())


def test_a_snapshot_is_not_restored_with_a_catalog_that_lacks_its_applications() -> None:
    scheduler = Scheduler(SMALL, esg_policy(SMALL))
    scheduler.handle(0, arrived("r1", "scan"))
    kept: dict[str, Application] = {"map": SMALL.applications["map"]}
    catalog = replace(SMALL, applications=kept)
    with pytest.raises(Rejected, match="a request for 'scan', which this catalog does not know"):
        Scheduler(catalog, esg_policy(catalog), snapshot=scheduler.snapshot())


def _forget_version(scheduler: Scheduler) -> None:
    del scheduler.state.registrations.standings["scan"]


def _retire_silently(scheduler: Scheduler) -> None:
    scheduler.state.registrations.standings["scan"] = ApplicationVersions(2, retired=True)


def _lose_queue(scheduler: Scheduler) -> None:
    del scheduler.state.queues["photo/label"]


def _stray_queue(scheduler: Scheduler) -> None:
    scheduler.state.queues["poem/write"] = Queue("poem/write", "poem", "write")


def _other_version(scheduler: Scheduler) -> None:
    scheduler.state.registrations.standings["scan"] = ApplicationVersions(3)


@pytest.mark.parametrize(
    "tamper", [_forget_version, _retire_silently, _lose_queue, _stray_queue, _other_version]
)
def test_books_of_applications_that_do_not_balance_are_noticed(
    tamper: Callable[[Scheduler], None],
) -> None:
    scheduler = Scheduler(SMALL, esg_policy(SMALL), policy_for=esg_policy)
    scheduler.handle(0, arrived("r1"))
    scheduler.handle(0, registered("scan", "label"))
    check(scheduler)
    tamper(scheduler)
    with pytest.raises(Bug):
        check(scheduler)
