"""What waiting costs under policy `apex`: `holding` relies on that it never gets cheaper."""

from hypothesis import given
from hypothesis import strategies as st

from esg.core.catalog.file import load_catalog
from esg.core.policies.apex.batch_aware import BatchPlans
from esg.core.policies.apex.forecast import Forecast
from esg.core.policies.apex.risk import RiskModel
from esg.units import NEVER_PUSD, ms

APPLICATION = load_catalog().applications["image-classification"]
PLANS = BatchPlans(APPLICATION)

forecasts = st.builds(
    Forecast,
    pace=st.floats(0.7, 1.5),
    spread=st.floats(0.0, 0.3),
    doubt=st.floats(0.0, 0.15),
    profiled=st.floats(0.0, 0.1),
)
risks = st.builds(
    RiskModel, st.just(PLANS), st.sampled_from([*APPLICATION.stages]), forecasts, st.booleans()
)
jobs = st.integers(1, 4)
times_us = st.integers(1, ms(2000))


@given(risks, jobs, times_us, times_us)
def test_the_less_time_is_left_the_more_a_job_pays(
    risk: RiskModel, jobs: int, first_us: int, second_us: int
) -> None:
    less_us, more_us = sorted([first_us, second_us])
    hurried, easy = risk.later_pusd(jobs, less_us), risk.later_pusd(jobs, more_us)
    assert hurried >= easy >= risk.least_pusd(jobs)
    for saves in (False, True):
        assert hurried >= risk.now(jobs, more_us, saves=saves)[0]


@given(risks, jobs, times_us, st.booleans())
def test_the_plan_with_the_least_cost_and_risk_is_found(
    risk: RiskModel, jobs: int, left_us: int, saves: bool
) -> None:
    terms = risk.terms(saves=saves)
    prices_pusd = [NEVER_PUSD]
    for time_us, cost_pusd in zip(*PLANS.stairs(risk.stage, jobs), strict=True):
        if time_us <= terms.expected.likely_us(left_us):
            risk_pusd = int(terms.late_pusd * terms.expected.risk(left_us, time_us))
            prices_pusd.append(cost_pusd + risk_pusd)
    assert risk.now(jobs, left_us, saves=saves)[0] == min(prices_pusd)
