"""The run while it goes on, and how its end is told."""

import io

from rich.console import Console

from esg.loadgen.record import UNANSWERED, SentRecord
from esg.loadgen.report.progress import ProgressView
from esg.loadgen.report.summary import (
    behind_text,
    fell_behind,
    lateness_text,
    print_findings,
    sending_text,
)
from esg.loadgen.run import LoadFindings
from esg.workload.plan import Workload


def record(number: int, *, late_us: int = 0, in_time: bool = True) -> SentRecord:
    times = 1000 * number, late_us, 250_000
    told = (526_000, 240_000, 0.001, (1,), ("node0",), "", "")
    return SentRecord(number, "photo", *times, "done", in_time, *told)


def findings(*records: SentRecord, **known: float) -> LoadFindings:
    found = LoadFindings(**known)  # type: ignore[arg-type]
    for one in records:
        found.fold(one)
    return found


def seen(view: ProgressView, found: LoadFindings) -> str:
    screen = Console(file=io.StringIO(), width=120)
    with screen.capture() as captured:
        screen.print(view.drawn(found))
    return captured.get()


def test_the_rate_is_that_of_the_last_moments() -> None:
    view = ProgressView(Workload(rate="heavy", duration_s=30))
    answered = record(1), record(2, in_time=False)
    first = seen(view, findings(*answered, sent=100, in_flight=98, elapsed_s=1.0))
    assert "heavy, seed 0: 1 of 30 s" in first
    second = seen(view, findings(*answered, sent=160, in_flight=158, elapsed_s=2.0))
    assert "60.0/s, 158 in flight, 160 sent, 50.0% in time" in second
    assert "p50 250 ms, p99 250 ms" in second
    assert "photo" in second
    assert "Ctrl-C" not in second


def test_progress_without_a_terminal_is_a_line() -> None:
    view = ProgressView(Workload(rate="heavy", duration_s=30))
    found = findings(record(1), record(2, in_time=False), sent=100, in_flight=98, elapsed_s=11.0)
    line = "heavy, seed 0: 11 of 30 s; 100 sent, 98 in flight, 50.0% in time"
    assert view.line(found) == line


def test_view_says_that_it_waits_for_answers_when_all_are_sent() -> None:
    view = ProgressView(Workload(rate="heavy", duration_s=4))
    found = findings(sent=300, in_flight=200, sending_s=4.0, elapsed_s=24.0)
    found.sending = False
    told = seen(view, found)
    assert "heavy, seed 0: sent in 4 s; waiting for answers for 20 s\n" in told
    assert " of 4 s" not in told


def test_view_says_what_is_waited_for_after_ctrl_c() -> None:
    found = findings(sent=3, in_flight=3, elapsed_s=1.0)
    found.interrupted = True
    assert "waiting for what is in flight" in seen(ProgressView(Workload(rate="heavy")), found)


def test_a_late_sender_says_by_how_much() -> None:
    late = findings(*(record(n, late_us=7_000) for n in range(100)))
    assert "loadgen itself was late: p50 7.0 ms, p99 7.0 ms" in lateness_text(late.outcome)
    punctual = findings(*(record(n, late_us=300) for n in range(100)))
    assert "went out in time: p50 0.3 ms, p99 0.3 ms" in lateness_text(punctual.outcome)


def test_a_mesh_that_fell_behind_is_told_of() -> None:
    missed = [record(n, in_time=False) for n in range(6)]
    assert fell_behind(findings(*missed, record(7)).outcome)
    kept = [record(n) for n in range(6)]
    assert not fell_behind(findings(*missed, *kept).outcome)
    assert not fell_behind(findings().outcome)


def test_a_machine_that_is_busy_is_named_before_the_mesh() -> None:
    missed = [record(n, in_time=False) for n in range(6)]
    busy = behind_text(findings(*missed, load=5.2, cores=2))
    assert "This machine is busy, with a load of 5.2 on 2 cores: if the mesh runs here," in busy
    late = [record(n, in_time=False, late_us=7_000) for n in range(6)]
    assert "cores may be busy" in behind_text(findings(*late, load=1.0, cores=2))
    quiet = behind_text(findings(*missed, load=1.0, cores=2))
    assert quiet.startswith("The mesh fell behind. It may have been cold: esg up --cold-start")
    assert "busy" not in quiet


def test_a_mesh_that_did_nothing_at_all_has_other_troubles() -> None:
    found = findings()
    found.outcome.not_sent("photo", 5, "no token")
    assert not fell_behind(found.outcome)


def test_summary_with_answers_missing_tells_when_they_were_given_up() -> None:
    lost = record(1)._replace(outcome="error", in_time=False, why=UNANSWERED)
    found = findings(lost, sent=1, sending_s=2.0, elapsed_s=302.0)
    assert sending_text(found) == "1 request sent in 2.0 s (0.5/s), given up after 302.0 s"


def test_summary_of_a_load_fits_on_80_columns() -> None:
    screen = Console(file=io.StringIO(), width=80)
    found = findings(*map(record, range(10)), sent=10, sending_s=2.0, elapsed_s=2.3)
    with screen.capture() as captured:
        print_findings(screen, Workload(rate="heavy"), found, emulated=found.outcome)
    told = captured.get()
    assert "10 requests sent in 2.0 s (5.0/s), the last answer after 2.3 s" in told
    assert max(map(len, told.splitlines())) <= 80
    assert told.count("100.0%") == 6
