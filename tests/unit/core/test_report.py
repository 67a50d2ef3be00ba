"""How a run went, also where it has hardly begun."""

from esg.core.messages.commands import AdmitRequest
from esg.core.messages.events import RequestArrived
from esg.core.report import Report
from esg.units import seconds


def test_a_run_that_ends_before_the_first_answer_took_no_time() -> None:
    report = Report()
    came = RequestArrived(request="r1", application="chain")
    admitted = AdmitRequest(request="r1", application="chain", deadline_us=seconds(6))
    report.observe(seconds(5), came, [admitted])
    summary = report.summary()
    assert (summary["requests"], summary["virtual_s"]) == (1, 0)
