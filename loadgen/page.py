"""A run as one page that needs nothing else: no server, no network, no style sheet.

It looks like the report of `esg reproduce`, whose style it shares. Everything that is text is
escaped, and a content security policy keeps the page from asking anybody for anything.
"""

from collections.abc import Iterable
from html import escape

from plotly.offline import get_plotlyjs

from cli.served import cost_text, latency_text, rate_text
from emulator.reproduce.figures import Figure
from emulator.reproduce.html import DRAW, POLICY, STYLE
from esg import __version__
from loadgen.figures import figures
from loadgen.outcome import Figures, Outcome
from loadgen.plan import Plan
from loadgen.run import Findings
from loadgen.summary import lateness_text, sending_text

HEADINGS = (
    "",
    "Requests",
    "Hit rate",
    "p50, ms",
    "p90, ms",
    "p99, ms",
    "USD per 1k",
    "Failed",
)


def report(plan: Plan, found: Findings, emulated: Outcome | None = None) -> str:
    """The whole file."""
    title = f"loadgen: {plan.text()}"
    body = "\n".join(
        (
            f"<header><h1>{escape(title)}</h1>",
            f'<p class="lead">{escape(sending_text(found))}</p>',
            f"<p>{escape(lateness_text(found.outcome))}</p></header>",
            "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>",
            _section("Live", _table(found.outcome)),
            "" if emulated is None else _section("Emulated", _table(emulated)),
            _failures(found.outcome),
            *(_figure(number, figure) for number, figure in enumerate(figures(found, emulated), 1)),
            f"<script>{DRAW}</script>",
            f"<footer>Made by loadgen, esg {escape(__version__)}.</footer>",
        )
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _table(outcome: Outcome) -> str:
    rows = [_row("td", (name, *_cells(f))) for name, f in sorted(outcome.by_application.items())]
    rows.append(_row("td", ("all", *_cells(outcome.total)), kind="best"))
    head = _row("th", HEADINGS)
    return (
        f'<div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'
        "</div>"
    )


def _cells(figures: Figures) -> tuple[str, ...]:
    latency_ms = figures.percentiles_ms()
    return (
        f"{figures.requests:,}",
        rate_text(figures.in_time, figures.requests),
        *(latency_text(latency_ms[name]) for name in ("p50", "p90", "p99")),
        cost_text(figures.cost_usd, figures.requests),
        f"{figures.failed:,}",
    )


def _failures(outcome: Outcome) -> str:
    if not outcome.errors:
        return ""
    items = (f"<li>{n:,} x {escape(why)}</li>" for why, n in outcome.errors.most_common())
    return _section("What went wrong", f"<ul>{''.join(items)}</ul>")


def _figure(number: int, figure: Figure) -> str:
    panels = "".join(
        f'<div class="panel"><h3>{escape(panel.title)}</h3><div class="plot"></div>'
        f'<script type="application/json">{_harmless(panel.plot.to_json())}</script></div>'
        for panel in figure.panels
    )
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in figure.legend.items()
    )
    columns = min(2, len(figure.panels))
    return (
        f"<section><figure><h2>{number}. {escape(figure.title)}</h2>"
        f'<p class="legend">{legend}</p><div class="panels in-{columns}">{panels}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure></section>"
    )


def _harmless(json: str) -> str:
    """So written that nothing in it can end the script that it is in."""
    for sign in "<>&":
        json = json.replace(sign, f"\\u{ord(sign):04x}")
    return json


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def _row(tag: str, cells: Iterable[str], kind: str = "") -> str:
    inside = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
    return f'<tr class="{kind}">{inside}</tr>'
