"""The plots of a run's report. Names are escaped: plotly takes tags in its texts for markup."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from esg.core.metrics import CAPTION
from esg.loadgen.outcome import Figures, LoadOutcome
from esg.loadgen.run import LoadFindings
from esg.reporting.plots import BLUE, GREY, ORANGE, Figure, Panel, empty_plot, tick
from esg.units import US_PER_S, to_ms


def figures(found: LoadFindings, emulated: LoadOutcome | None) -> list[Figure]:
    if not found.outcome.by_application:
        return []
    return [
        _latencies(found),
        _arrivals(found),
        _by_application(found.outcome, emulated),
        _batches(found.outcome),
    ]


def _latencies(found: LoadFindings) -> Figure:
    bins = list(found.timeline.bins())
    panels = []
    for name, figures in sorted(found.outcome.by_application.items()):
        seen = [(second, b.latencies[name]) for second, b in bins if name in b.latencies]
        seconds = [second for second, _ in seen]
        percentiles = [times.percentiles_ms(50, 99) for _, times in seen]
        plot = empty_plot("ms", "s")
        plot.add_trace(_line("p50", BLUE, seconds, [p50 for p50, _ in percentiles]))
        plot.add_trace(_line("p99", ORANGE, seconds, [p99 for _, p99 in percentiles]))
        if figures.slo_us:
            plot.add_hline(y=to_ms(figures.slo_us), line={"color": GREY, "dash": "dash"})
        panels.append(Panel(name, plot))
    return Figure(
        "Latency over time, against the SLO",
        panels,
        f"Of the requests planned in each {_width(found)} that were done, from the planned instant "
        "to the answer. The SLO counts from when the mesh accepts a request, a little later.",
        {"p50": BLUE, "p99": ORANGE, "SLO": GREY},
    )


def _arrivals(found: LoadFindings) -> Figure:
    bins = list(found.timeline.bins())
    seconds = [second for second, _ in bins]
    per_s = US_PER_S / found.timeline.width_us
    plot = empty_plot("per s", "s")
    plot.add_trace(_line("sent", GREY, seconds, [b.planned * per_s for _, b in bins]))
    plot.add_trace(_line("done", BLUE, seconds, [b.answered * per_s for _, b in bins]))
    return Figure(
        "Arrivals and completions",
        [Panel("Requests per second", plot)],
        "Requests at their planned instants, and at those of their answers. Where the mesh keeps "
        "up, the second line follows the first.",
        {"arrivals": GREY, "completions": BLUE},
    )


def _by_application(live: LoadOutcome, emulated: LoadOutcome | None) -> Figure:
    names = sorted(live.by_application)
    hits, costs = empty_plot("SLO hit rate, %"), empty_plot("USD per 1k requests")
    hits.update_yaxes(range=[0, 105])
    runs = {"live": (live, BLUE)} | ({"emulated": (emulated, ORANGE)} if emulated else {})
    for label, (outcome, colour) in runs.items():
        of = [outcome.by_application.get(name, Figures()).served for name in names]
        hits.add_trace(_bars(label, colour, names, [100 * (f.hit_rate or 0) for f in of]))
        costs.add_trace(_bars(label, colour, names, [f.cost_usd_per_1k or 0 for f in of]))
    return Figure(
        "Hit rate and cost",
        [Panel("Answered in time", hits), Panel("Cost", costs)],
        f"By application. {CAPTION}",
        {label: colour for label, (_, colour) in runs.items()},
    )


def _batches(outcome: LoadOutcome) -> Figure:
    sizes = sorted(outcome.total.batches)
    jobs = outcome.total.batches.total() or 1
    plot = empty_plot("share of jobs, %")
    shares = [100 * outcome.total.batches[size] / jobs for size in sizes]
    plot.add_trace(_bars("live", BLUE, [str(size) for size in sizes], shares))
    plot.update_xaxes(type="category", title={"text": "batch"})
    return Figure(
        "Batch sizes",
        [Panel("In which batches jobs ran", plot)],
        "A job is one request's work at one stage; those of a batch ran as one invocation.",
        {},
    )


def _width(found: LoadFindings) -> str:
    width_s = found.timeline.width_us // US_PER_S
    return "second" if width_s == 1 else f"span of {width_s} s"


def _line(name: str, colour: str, x: Sequence[float], y: Sequence[float]) -> Any:
    rounded = [round(value, 2) for value in y]
    return go.Scatter(name=name, x=list(x), y=rounded, line={"color": colour, "width": 2})


def _bars(name: str, colour: str, x: Sequence[str], y: Sequence[float]) -> Any:
    labels = [tick(text) for text in x]
    return go.Bar(name=name, x=labels, y=[round(v, 4) for v in y], marker={"color": colour})
