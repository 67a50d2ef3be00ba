"""Plans that follow what tasks really take. `detect` takes 100 ms alone, as profiled."""

from collections.abc import Callable, Sequence

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog
from esg.core.estimation.corrected import corrected
from esg.core.estimation.drift import corrections_due, drifts, observe
from esg.core.messages.commands import Command, CorrectProfiles
from esg.core.messages.events import Correction, Event, ProfilesCorrected
from esg.core.policies.esg import Engines, Esg
from esg.core.scheduler.scheduler import Scheduler
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.search import Engine
from esg.core.state.state import State
from esg.units import PPM, ms, seconds
from tests.support.desk import Desk, arrived, finished, joined, refuse, registered, start
from tests.support.small_catalog import SMALL

WARM = {0: ("detect", "resize", "label"), 1: ("detect", "resize", "label")}
FOLLOWING = SchedulerSettings(prewarm=False, follow_profiles=True)


def correction(thousandths: int, *, function: str = "detect", batch: int = 1) -> Correction:
    return Correction(function=function, batch=batch, pace_ppm=thousandths * 1000)


def corrected_to(*corrections: Correction) -> Event:
    return ProfilesCorrected(corrections=corrections)


def order(*corrections: Correction) -> Command:
    return CorrectProfiles(corrections=corrections)


def corrections_in(orders: Sequence[Command]) -> list[CorrectProfiles]:
    return [command for command in orders if isinstance(command, CorrectProfiles)]


class Story:
    """Requests for `scan` (or others), one after the other, each taking as long as is said."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk.at(0, joined(resident=WARM))
        self.now_us = 0
        self.tasks = 0

    def ran(self, *took_ms: int, application: str = "scan", loading_ms: int = 0) -> "Story":
        for each_ms in took_ms:
            self.tasks += 1
            self.desk.at(self.now_us, arrived(f"r{self.tasks}", application))
            self.now_us += ms(each_ms)
            done = finished(f"t{self.tasks}", running_us=ms(each_ms), loading_us=ms(loading_ms))
            self.desk.at(self.now_us, done)
        return self

    def later(self, time_us: int) -> "Story":
        self.now_us += time_us
        return self

    @property
    def corrections(self) -> list[CorrectProfiles]:
        return corrections_in(self.desk.orders)


@pytest.fixture
def story(open_desk: Callable[..., Desk]) -> Story:
    return Story(open_desk(settings=FOLLOWING))


# When a correction is ordered.


def test_eight_tasks_that_take_longer_than_profiled_correct_the_profile(story: Story) -> None:
    story.ran(*[130] * 7)
    assert story.corrections == []
    story.ran(130)
    assert story.corrections == [order(correction(1300))]


def test_tasks_that_are_faster_than_profiled_do_it_too(story: Story) -> None:
    story.ran(*[80] * 8)
    assert story.corrections == [order(correction(800))]


def test_a_correction_is_the_median_so_a_straggler_does_not_count(story: Story) -> None:
    story.ran(130, 131, 132, 133, 134, 135, 136, 900)
    assert story.corrections == [order(correction(1340))]


def test_drift_of_less_than_a_twentieth_is_left_alone(story: Story) -> None:
    story.ran(*[105] * 40)
    assert story.corrections == []


def test_drift_that_chance_explains_is_not_corrected(story: Story) -> None:
    """Six of eight above is nothing; seven of eight is something."""
    story.ran(90, 90, *[130] * 6)
    assert story.corrections == []
    story.ran(130)  # seven of nine: 7 - 2 = 5, and two standard deviations are 6
    assert story.corrections == []
    story.ran(130, 130)  # nine of eleven: 7 > 6.6
    assert story.corrections == [order(correction(1300))]


def test_a_correction_stays_within_bounds(story: Story) -> None:
    story.ran(*[10] * 8)
    assert story.corrections == [order(correction(250))]


def test_correction_is_at_most_four_times_the_profile(story: Story) -> None:
    story.ran(*[900] * 8)
    assert story.corrections == [order(correction(4000))]


@pytest.mark.parametrize(("took_ms", "planned"), [(10, 250), (900, 4000)])
def test_measured_drift_is_shown_as_it_was(story: Story, took_ms: int, planned: int) -> None:
    story.ran(*[took_ms] * 8)
    story.desk.at(story.now_us, corrected_to(correction(planned)))
    (shown,) = drifts(story.desk.scheduler.state, SMALL)
    assert (shown.measured_ppm, shown.planned_ppm) == (took_ms * PPM // 100, planned * 1000)


def test_tasks_that_waited_for_a_model_say_nothing(story: Story) -> None:
    story.ran(*[130] * 20, loading_ms=10)
    assert story.corrections == []


def test_corrections_come_seconds_apart(story: Story) -> None:
    story.ran(*[130] * 8)
    story.desk.at(story.now_us, corrected_to(correction(1300)))
    ordered_us = story.now_us
    while story.now_us + ms(200) < ordered_us + seconds(5):
        story.ran(200)
    assert len(story.corrections) == 1
    story.ran(200, 200)
    assert story.corrections[1:] == [order(correction(2000))]


def test_an_order_that_nobody_carried_out_is_given_again(story: Story) -> None:
    story.ran(*[130] * 8).later(seconds(5)).ran(130)
    assert story.corrections == [order(correction(1300))] * 2


def test_drift_is_not_followed_without_the_setting(desk: Desk) -> None:
    story = Story(desk).ran(*[130] * 20)
    assert (story.corrections, desk.scheduler.state.measured) == ([], {})


# What it means for plans.


def test_plans_go_by_the_corrected_profile(story: Story) -> None:
    story.desk.at(0, corrected_to(correction(1300)))
    story.ran(130)
    assert story.desk.orders[0] == start("t1", "scan/detect", "r1", predicted_us=ms(130))


def test_a_correction_may_change_which_config_is_chosen(story: Story) -> None:
    """An SLO of 120 ms allows the cheap config, unless that takes 130 ms."""
    story.desk.at(1, arrived("a", slo_us=ms(120))).at(ms(100), finished("t1"))
    story.desk.at(ms(100), corrected_to(correction(1300)))
    story.desk.at(ms(200), arrived("b", slo_us=ms(120)))
    assert story.desk.orders[0] == start("t1", "scan/detect", "a", config=(1, 1, 1))
    assert story.desk.orders[-1] == start("t2", "scan/detect", "b", config=(1, 2, 2))


def test_the_pace_of_a_queue_is_beside_what_was_planned_for(story: Story) -> None:
    """Policies that multiply the two would otherwise reckon with the same delay twice."""
    story.ran(130)
    queue = story.desk.scheduler.state.queues["scan/detect"]
    assert queue.pace_ppm > PPM
    story.desk.at(story.now_us, corrected_to(correction(1300)))
    assert queue.pace_ppm == PPM
    story.ran(130)
    assert queue.pace_ppm == PPM


def test_a_batch_that_was_not_seen_is_as_far_off_as_the_nearest_that_was(story: Story) -> None:
    before = story.desk.scheduler.planned.functions["detect"].profile
    story.desk.at(0, corrected_to(correction(1300)))
    after = story.desk.scheduler.planned.functions["detect"].profile
    assert (after.time_us * 1000 == before.time_us * 1300).all()
    assert (after.task_cost_pusd > before.task_cost_pusd).all()


def test_the_latest_corrections_replace_the_earlier_ones(story: Story) -> None:
    story.desk.at(0, corrected_to(correction(1300)), corrected_to(correction(2, function="label")))
    assert story.desk.scheduler.planned.functions["detect"] is SMALL.functions["detect"]
    story.desk.at(0, corrected_to())
    assert story.desk.scheduler.planned is SMALL


def test_slos_are_promised_by_the_profile_not_by_its_correction(story: Story) -> None:
    """Else a mesh that was slow for a while would refuse everything, and never learn better."""
    story.desk.at(0, corrected_to(correction(4000)), arrived("r1", slo_us=ms(60)))
    assert story.desk.orders == [start("t1", "scan/detect", "r1", predicted_us=ms(400))]
    story.desk.at(1, arrived("r2", slo_us=ms(59)))
    assert story.desk.new_orders == [refuse("r2")]


def test_an_application_that_comes_later_is_planned_with_corrections_too(story: Story) -> None:
    story.desk.at(0, corrected_to(correction(1300)), registered("tag", "detect", slo_scale=2.0))
    story.ran(130, application="tag")
    assert story.desk.orders[0] == start("t1", "tag/detect", "r1", predicted_us=ms(130))
    application = story.desk.scheduler.current("tag")
    assert application is not None
    assert application.slo_us == ms(200)


def test_a_batch_that_went_out_of_use_long_ago_loses_its_correction() -> None:
    """It may have looked so slow that it was never tried again."""
    state = State(corrections=(correction(1300), correction(4000, batch=2)))
    took(state, 0, 400, batch=2)
    for now_us in (0, seconds(599)):
        assert took(state, now_us, 130) is None
    assert took(state, seconds(600), 130) == (correction(1300),)


def test_measurements_of_long_ago_do_not_count() -> None:
    state = State()
    for _ in range(7):
        took(state, 0, 130)
    assert took(state, seconds(600), 130) is None
    assert state.measured["detect"][0].tasks == 8


def test_all_functions_that_moved_are_corrected_together() -> None:
    state = State(corrections=(correction(900, function="depth"),), corrected_us=1)
    for function in ("label", "detect"):
        for _ in range(8):
            assert took(state, 2, 130, function=function) is None
    expected = (
        correction(900, function="depth"),
        correction(1300, function="label"),
        correction(1300),
    )
    assert took(state, 1 + seconds(5), 130) == expected


def took(
    state: State, now_us: int, time_ms: int, *, function: str = "detect", batch: int = 1
) -> tuple[Correction, ...] | None:
    """A task that is profiled with 100 ms took so many; what should hold from now on."""
    config = Config(batch, 1, 1)
    measured = observe(state, now_us, function, config, profiled_us=ms(100), took_us=ms(time_ms))
    return corrections_due(state, now_us, function, measured)


def test_a_function_that_rests_keeps_its_corrections(story: Story) -> None:
    story.desk.at(0, corrected_to(correction(1300)))
    story.ran(*[130] * 8).later(seconds(6000)).ran(130)
    assert story.corrections == []


# How it comes into force.


def scheduler_with(built: list[str]) -> Scheduler:
    """One that notes for which applications engines are built."""

    class Counted(Engines):
        def build(self, application: Application) -> Engine:
            built.append(application.name)
            return super().build(application)

    engines = Counted("frontier", group_size=3)

    def policy_for(catalog: Catalog) -> Esg:
        return Esg(catalog, engines, k=5)

    policy = policy_for(SMALL)
    for name in SMALL.applications:
        policy._engines[name]  # all are in use
    scheduler = Scheduler(SMALL, policy, FOLLOWING, policy_for=policy_for)
    built.clear()
    return scheduler


def test_only_applications_whose_functions_changed_are_built_anew() -> None:
    built: list[str] = []
    scheduler = scheduler_with(built)
    scheduler.handle(0, corrected_to(correction(1300, function="depth")))
    assert built == ["map", "scene"]
    built.clear()
    both = correction(1300, function="depth"), correction(1200, function="label")
    scheduler.handle(1, corrected_to(*both))
    assert built == ["photo", "scene"]


def test_prepared_plans_are_not_built_again() -> None:
    built: list[str] = []
    scheduler = scheduler_with(built)
    scheduler.prepare((correction(1300, function="depth"),))
    assert built == ["map", "scene"]
    assert scheduler.planned is SMALL
    scheduler.handle(0, corrected_to(correction(1300, function="depth")))
    assert built == ["map", "scene"]
    assert scheduler.planned.functions["depth"] is not SMALL.functions["depth"]


def test_plans_prepared_for_another_catalog_are_not_used() -> None:
    scheduler = scheduler_with([])
    scheduler.prepare((correction(1300, function="depth"),))
    scheduler.handle(0, registered("tag", "depth"))
    scheduler.handle(1, corrected_to(correction(1300, function="depth")))
    depth = scheduler.planned.functions["depth"]
    assert scheduler.planned.applications["tag"].stages["depth"].function is depth


def test_a_correction_that_cannot_be_planned_with_is_not_made() -> None:
    found = corrected(SMALL, [correction(10**12)], SMALL)
    assert found.functions["detect"] is SMALL.functions["detect"]
