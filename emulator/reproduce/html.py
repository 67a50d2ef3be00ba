"""The study as one page that needs nothing else: no server, no network, no style sheet.

Everything that is text is escaped, and a content security policy keeps the page from asking anybody
for anything. Without JavaScript the tables and captions are still there.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from plotly.offline import get_plotlyjs

from emulator.reproduce.claims import COST, Claim
from emulator.reproduce.experiments import SYSTEMS, Results, main
from emulator.reproduce.figures import Figure, figures
from emulator.reproduce.study import Study, wins
from emulator.scenario import SETTINGS
from esg import __version__

TITLE = "The evaluation of ESG, done again"


def page(study: Study) -> str:
    """The whole file."""
    body = "\n".join(
        (
            f"<header><h1>{escape(TITLE)}</h1>{_summary(study)}</header>",
            "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>",
            _section("How it was made", _how(study)),
            _section("The paper's claims", _claims(study.claims)),
            _section("Where each one wins", _wins(study.results)),
            *(_figure(number, figure) for number, figure in enumerate(figures(study), 1)),
            _section("All readings", _readings(study.results)),
            f"<script>{DRAW}</script>",
            f"<footer>Made by esg {escape(__version__)}.</footer>",
        )
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(TITLE)}</title>\n<style>{STYLE}</style>\n"
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)


def _summary(study: Study) -> str:
    results = study.results
    rates = "; ".join(
        f"{setting} {100 * results.mean(main(setting, 'esg'), 'slo_hit_rate'):.1f} %"
        for setting in SETTINGS
    )
    return (
        '<p class="lead">ESG is a scheduler for pipelines of neural networks on shared GPUs. For '
        "every queue of requests it chooses a batch size and a share of CPU and GPU, so that each "
        "pipeline ends before its deadline (its SLO) at the least cost. Its paper (HPDC '24) "
        "compares it with INFless, FaST-GShare, Orion and Aquatope. This page does the same again, "
        "with an independent implementation in an emulated cluster. <strong>"
        f"{study.reproduced} of {len(study.claims)} claims were reproduced.</strong> "
        f"ESG's share of requests answered in time: {escape(rates)}.</p>"
    )


def _how(study: Study) -> str:
    size, cluster = study.results.size, study.catalog.cluster
    applications = ", ".join(study.catalog.applications)
    items = (
        f"Made with <code>{escape(study.command)}</code>, version {escape(__version__)}: "
        f"{size.requests:,} requests per run, {size.seeds} seed{'s' * (size.seeds > 1)}, "
        f"{len(study.results.outcomes)} kinds of run.",
        f"The cluster is emulated: {cluster.nodes} nodes with {cluster.vcpus} vCPUs and "
        f"{cluster.vgpus} vGPUs each. The schedulers are the real ones; only time is virtual. "
        "Every system meets the same requests and the same random noise.",
        f"The applications are {escape(applications)}. Each setting combines a deadline with a "
        "load: "
        + escape(
            "; ".join(
                f"{name}: {setting.slo_scale:g} L, {setting.rate} load"
                for name, setting in SETTINGS.items()
            )
        )
        + ". L is an application's time alone with one vCPU, one vGPU and batches of one.",
        "<strong>The profiles are modelled.</strong> The paper's own are not public; it gives one "
        "time per function, and how that changes with batch, vCPUs and vGPUs is an assumption "
        "(after public measurements on A100 slices). So are the noise "
        f"({escape(_noise(study))} of each duration) and the transfer times; prices are the "
        "paper's. How much batching pays decides most of what differs below.",
        "Models are loaded at the start, so that nobody wins or loses by cold starts alone. "
        "Scheduling time is charged to each decision from the work it counted.",
        escape(study.training),
        "Where a rival's rule can be read in several ways, all readings were run, and the "
        "comparison uses the one that does best here.",
    )
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _claims(claims: Sequence[Claim]) -> str:
    """One table per section of the paper."""
    intro = _paragraph(
        "A claim counts as reproduced when ours has the same sign and is within the paper's range, "
        "or beyond it in ESG's favour."
    )
    rows = []
    section = ""
    for claim in claims:
        if claim.section != section:
            section = claim.section
            rows.append(
                f'<tr><th class="part" colspan="4" scope="colgroup">{escape(section)}</th></tr>'
            )
        kind = "yes" if claim.reproduced else "no"
        why = f'<p class="why">{escape(claim.why)}</p>' if claim.why else ""
        rows.append(
            f'<tr><td data-of="Claim">{escape(claim.text)}{why}</td>'
            f'<td data-of="Paper">{escape(claim.paper)}</td>'
            f'<td data-of="Here">{escape(claim.ours)}</td>'
            f'<td data-of="Verdict"><span class="verdict {kind}">{escape(claim.verdict)}</span>'
            "</td></tr>"
        )
    head = _row("th", ("Claim", "Paper", "Here", "Verdict"))
    return (
        f'{intro}<table class="claims"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _wins(results: Results) -> str:
    items = []
    found = list(wins(results))
    for setting in SETTINGS:
        parts = [
            f"{win.contest}: <strong>{escape(', '.join(win.systems))}</strong> "
            f"({escape(win.figure)})"
            for win in found
            if win.setting == setting
        ]
        items.append(f"<li>{escape(setting)} — {'; '.join(parts)}</li>")
    return f"<ul>{''.join(items)}</ul>"


def _figure(number: int, figure: Figure) -> str:
    panels = "".join(
        f'<div class="panel"><h3>{escape(panel.title)}</h3><div class="plot"></div>'
        f'<script type="application/json">{_json(panel.plot)}</script></div>'
        for panel in figure.panels
    )
    columns = 3 if len(figure.panels) % 3 == 0 else min(2, len(figure.panels))
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in figure.legend.items()
    )
    return (
        f"<section><figure><h2>{number}. {escape(figure.title)}</h2>"
        f'<p class="legend">{legend}</p><div class="panels in-{columns}">{panels}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure></section>"
    )


def _json(plot: Any) -> str:
    """A plot, so written that nothing in it can end the script that it is in."""
    text = str(plot.to_json())
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


DRAW = """
for (const panel of document.querySelectorAll(".panel")) {
  const plot = JSON.parse(panel.querySelector("script").textContent);
  Plotly.newPlot(panel.querySelector(".plot"), plot.data, plot.layout,
    {displayModeBar: false, responsive: true, plotlyServerURL: ""});
}
"""


def _noise(study: Study) -> str:
    spreads = sorted({f.profile.relative_std for f in study.catalog.functions.values()})
    return " or ".join(f"{100 * spread:g} %" for spread in spreads)


def _readings(results: Results) -> str:
    intro = _paragraph(
        "Hit rate in percent and cost relative to ESG, with 95 % margins. The readings in bold "
        "stand for their system in the comparison. Limits: the hit rate of unlimited warm "
        "resources, and the cost of always full batches; nobody reaches both."
    )
    head = _row("th", ("System", "Reading", *(f"{s}: {w}" for s in SETTINGS for w in _FIGURES)))
    rows = []
    for system, readings in SYSTEMS.items():
        best = results.reading(system)
        for policy in readings:
            kind = ' class="best"' if policy == best else ""
            rows.append(f"<tr{kind}>{_cells('td', (system, policy, *_pair(results, policy)))}</tr>")
    rows.append(_row("td", ("ESG", "esg, with A*", *_pair(results, "esg-astar"))))
    rows.append(_row("td", ("Limits", "ceiling, floor", *_pair(results, "limits"))))
    table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    return f'{intro}<div class="wide">{table}</div>'


_FIGURES = ("hit rate", "cost")


def _pair(results: Results, policy: str) -> Iterable[str]:
    for setting in SETTINGS:
        hits = results.estimate(main(setting, policy), "slo_hit_rate")
        cost = results.relative(main(setting, policy), main(setting, "esg"), COST)
        yield f"{100 * hits.mean:.1f} ± {100 * hits.margin:.1f}"
        yield f"{cost.mean:.2f} ± {cost.margin:.2f}"


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def _paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{_cells(tag, cells)}</tr>"


def _cells(tag: str, cells: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)


STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5c636d; --line: #d9dde3; --paper: #fff;
  --card: #f6f7f9; --yes: #14692f; --yes-bg: #e2f4e7; --no: #8f2a1c; --no-bg: #fbe7e3; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #a0a8b3; --line: #363c45; --paper: #15181c; --card: #1d2126;
    --yes: #8edba3; --yes-bg: #173522; --no: #f2a99c; --no-bg: #42201a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .7rem; }
h3 { font-size: .9rem; font-weight: 600; margin: 0; color: var(--soft); }
p, ul { max-width: 46rem; margin: 0 0 1rem; } ul { padding-left: 1.2rem; } li { margin: .3rem 0; }
.lead { font-size: 1.08rem; }
code { font-size: .9em; background: var(--card); padding: .1em .35em; border-radius: 4px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .7rem .5rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th { font-weight: 600; color: var(--soft); }
th.part { color: var(--ink); padding-top: 1.2rem; }
.claims td:nth-child(1) { width: 44%; } .claims td:nth-child(4) { white-space: nowrap; }
.why { margin: .35rem 0 0; color: var(--soft); font-size: .85rem; }
.verdict { padding: .1rem .5rem; border-radius: 4px; font-weight: 600; font-size: .82rem; }
.yes { color: var(--yes); background: var(--yes-bg); }
.no { color: var(--no); background: var(--no-bg); }
.best td { font-weight: 600; }
.wide { overflow-x: auto; } .wide td, .wide th { white-space: nowrap; padding-right: 1rem; }
.wide th { white-space: normal; min-width: 5.5rem; }
figure { margin: 0; } figcaption { max-width: 46rem; color: var(--soft); font-size: .92rem; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 0 0 .6rem; font-size: .88rem; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin-right: .4em; }
.panels { display: grid; gap: .8rem; margin-bottom: .7rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.in-3 { grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); }
.in-1 { max-width: 46rem; }
.panel { background: var(--card); border-radius: 8px; padding: .8rem .6rem .2rem; min-width: 0; }
.js-plotly-plot .xtick text, .js-plotly-plot .ytick text, .js-plotly-plot .xtitle,
.js-plotly-plot .ytitle { fill: var(--soft) !important; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) {
  .claims thead { display: none; } .claims td { display: block; border: 0; padding: .1rem 0; }
  .claims td:nth-child(1) { width: auto; padding-top: .8rem; }
  .claims td:nth-child(4) { border-bottom: 1px solid var(--line); padding-bottom: .8rem; }
  .claims td:nth-child(n+2)::before { content: attr(data-of) ": "; color: var(--soft); } }
"""
