"""Changes of applications that are refused, and what is said to who asked for one."""

import sys
from collections.abc import Callable

import pytest

from esg.core.messages.commands import (
    AcceptApplication,
    RefusalKind,
    RefuseApplication,
)
from esg.core.messages.events import ApplicationRegistered, ApplicationRetired, Event, StageSpec
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy_maker
from esg.core.scheduler.scheduler import Scheduler
from esg.errors import Rejected
from esg.units import ms
from tests.support.desk import (
    Desk,
    arrived,
    esg_policy,
    joined,
    refuse,
    refuse_application,
    registered,
    retired,
    start,
)
from tests.support.small_catalog import SMALL

MALFORMED: list[tuple[Event, str]] = [
    (registered("tag"), "no stages"),
    (registered("tag", "labl"), "stage 'labl': unknown function 'labl'; did you mean 'label'"),
    (registered("tag", "label", "resize", "label"), "cycle"),
    (registered("tag", stages={"label": (), "resize": ()}), "2 roots"),
    (registered("tag", stages={"label": ("resize",)}), "unknown stage 'resize'"),
    (registered("tag", stages={"label": (), "resize": ("label", "label")}), "twice"),
    (registered("tag", *(f"s{n}" for n in range(33))), "33 stages; at most 32"),
    (registered("", "label"), "a name has no slash"),
    (registered("a/b", "label"), "a name has no slash"),
    (registered("tag@2", "label"), "a name has no @"),
    (
        ApplicationRegistered(
            application="tag", stages=(StageSpec(name="@f00d", function="label"),)
        ),
        "does not begin with @, which marks payloads",  # attack: A2, in a store the two would meet
    ),
    (registered("tag", "label", slo_us=0), "must be positive"),
    (registered("tag", "label", slo_us=-5), "must be positive"),
    (registered("tag", "label", slo_us=ms(19)), "takes 20 ms with the fastest configs"),
    (registered("tag", "label", slo_us=2**60), "longer than years"),
    (registered("tag", "label", slo_scale=0.5), "takes 20 ms with the fastest configs"),
    (registered("tag", "label", slo_scale=0.0), "greater than 0"),
    (registered("tag", "label", slo_scale=-1.0), "greater than 0"),
    (registered("tag", "label", slo_scale=1e300), "longer than years"),
    (registered("tag", "label", slo_scale=1e308), "1e+308 times L is longer"),  # attack: A1
    (registered("tag", "label", slo_scale=sys.float_info.max), "times L is longer than years"),
    (registered("tag", "label", slo_scale=5e-324), "the SLO is 0 us"),
    (registered("x" * 301, "label"), "a name has at most 300 characters"),
    (registered("tag", "label", slo_us=ms(50), slo_scale=1.0), "give one of them"),
    (registered("photo", "labl"), "unknown function"),
    (retired("tag"), "unknown application 'tag'"),
    (retired("scam"), "did you mean 'scan'"),
]


@pytest.mark.parametrize(("event", "reason"), MALFORMED, ids=[reason for _, reason in MALFORMED])
def test_impossible_registration_is_refused_with_a_reason_and_changes_nothing(
    desk: Desk, event: Event, reason: str
) -> None:
    desk.at(0, registered("photo", "resize"))
    before = desk.scheduler.snapshot()
    catalog = desk.scheduler.catalog
    desk.at(0, event)
    (order,) = desk.new_orders
    assert isinstance(order, RefuseApplication)
    unknown = isinstance(event, ApplicationRetired)
    assert (order.kind is RefusalKind.UNKNOWN_APPLICATION) == unknown
    assert reason in order.reason
    assert desk.scheduler.snapshot() == before
    assert desk.scheduler.catalog is catalog


def test_a_stage_that_appears_twice_is_refused(desk: Desk) -> None:
    twice = StageSpec(name="label", function="label")
    desk.at(0, ApplicationRegistered(application="tag", stages=(twice, twice)))
    assert desk.orders == [refuse_application("tag")]


def test_people_cannot_ask_for_a_version(desk: Desk) -> None:
    desk.at(0, joined("i0"), registered("photo", "resize"))
    desk.at(1, arrived("r1", "photo@2"), retired("photo@2"))
    unknown = RefusalKind.UNKNOWN_APPLICATION
    assert desk.new_orders == [
        refuse("r1", kind=unknown),
        refuse_application("photo@2", kind=unknown),
    ]


def test_retired_application_cannot_be_retired_again(desk: Desk) -> None:
    desk.at(0, joined("i0"), arrived("r1"), retired("scan"), retired("scan"))
    assert desk.orders == [start("t1", "scan/detect", "r1"), refuse_application("scan")]


def test_policy_that_learnt_nothing_about_an_application_refuses_it(
    open_desk: Callable[..., Desk],
) -> None:
    trained = {
        name: {stage: s.function.profile.minimum for stage, s in application.stages.items()}
        for name, application in SMALL.applications.items()
    }
    settings = PolicySettings(trained=trained)
    desk = open_desk(policy=policy_maker("aquatope", settings))
    desk.at(0, registered("tag", "label"), registered("scan", "detect"))
    assert [type(order) for order in desk.orders] == [RefuseApplication] * 2
    assert "nothing was learnt for 'tag'" in str(desk.orders[0])
    desk.at(1, joined("i0"), arrived("r1"), retired("scan"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1")]


def test_a_scheduler_that_cannot_make_its_policy_again_says_so() -> None:
    scheduler = Scheduler(SMALL, esg_policy(SMALL))
    (order,) = scheduler.handle(0, registered("tag", "label"))
    assert isinstance(order, RefuseApplication)
    assert "policy_for" in order.reason


def test_a_change_of_applications_is_accepted_with_the_version_that_new_requests_get(
    desk: Desk,
) -> None:
    desk.at(0, registered("tag", "label"), registered("tag", "resize"), retired("tag"))
    assert desk.accepted == [
        AcceptApplication(application="tag", version=version) for version in (1, 2, 0)
    ]


def test_a_refusal_names_the_applications_there_are(desk: Desk) -> None:
    desk.at(0, registered("poem", "label"), retired("map"), arrived("r1", "xylophone"))
    known = "thumb, scan, watch, photo, scene, poem"
    assert desk.orders == [refuse("r1", reason=f"unknown application 'xylophone'; known: {known}")]


@pytest.mark.parametrize("slo_scale", [float("nan"), float("inf"), -float("inf")])
def test_slo_that_is_not_a_number_is_refused(slo_scale: float) -> None:
    with pytest.raises(Rejected, match="must be a number"):
        registered("tag", "label", slo_scale=slo_scale)
