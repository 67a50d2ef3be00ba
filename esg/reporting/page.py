"""A report as one page that needs nothing else: no server, no network, no style sheet.

Everything that is text is escaped, and a content security policy keeps the page from asking anybody
for anything. Without JavaScript the tables and captions are still there.
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from plotly.offline import get_plotlyjs

from esg.reporting.plots import Figure
from esg.version import __version__

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)

NOSCRIPT = "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>"


def whole_page(title: str, *parts: str, made_by: str) -> str:
    body = "\n".join(
        (
            *parts,
            f"<script>{DRAW}</script>",
            f"<footer>Made by {made_by} {escape(__version__)}.</footer>",
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


def figure_section(number: int, figure: Figure, *, by_threes: bool = False) -> str:
    """Panels are beside each other in twos; `by_threes`: in threes if that leaves no gap."""
    panels = "".join(
        f'<div class="panel"><h3>{escape(panel.title)}</h3><div class="plot"></div>'
        f'<script type="application/json">{_json(panel.plot)}</script></div>'
        for panel in figure.panels
    )
    count = len(figure.panels)
    columns = 3 if by_threes and count % 3 == 0 else min(2, count)
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in figure.legend.items()
    )
    return (
        f"<section><figure><h2>{number}. {escape(figure.title)}</h2>"
        f'<p class="legend">{legend}</p><div class="panels in-{columns}">{panels}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure></section>"
    )


def section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def facts_table(facts: Mapping[str, str]) -> str:
    """What tells this report from another one: see `Provenance`."""
    return f"<table>{''.join(row('td', pair) for pair in facts.items())}</table>"


def table(headings: Iterable[str], rows: Iterable[str]) -> str:
    """Rows below their head; a wide one is scrolled on its own."""
    head, body = row("th", headings), "".join(rows)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def row(tag: str, cells: Iterable[str], kind: str = "") -> str:
    inside = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
    return f'<tr class="{kind}">{inside}</tr>' if kind else f"<tr>{inside}</tr>"


def _json(plot: Any) -> str:
    """A plot, so written that nothing in it can end the script that it is in."""
    text = str(plot.to_json())
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


DRAW = """
for (const panel of document.querySelectorAll(".panel")) {
  const plot = JSON.parse(panel.querySelector("script").textContent);
  if (panel.clientWidth < 320) plot.layout.font.size = 10;  // labels side by side, on a phone
  Plotly.newPlot(panel.querySelector(".plot"), plot.data, plot.layout,
    {displayModeBar: false, responsive: true, plotlyServerURL: ""});
}
"""

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
section > h3 { margin: 1.6rem 0 .5rem; }
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
.wide { overflow-x: auto; margin-bottom: .8rem; }
.wide td, .wide th { white-space: nowrap; padding-right: 1rem; }
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
