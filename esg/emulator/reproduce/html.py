"""The study as one page (see `esg.reporting.page`)."""

from collections.abc import Iterable
from datetime import datetime
from html import escape

from esg.core.metrics import CAPTION
from esg.emulator.reproduce.experiments import COST, SYSTEMS, Results, main
from esg.emulator.reproduce.figures import figures
from esg.emulator.reproduce.readings import DEVIATIONS, READINGS, alike
from esg.emulator.reproduce.standings import level_rule
from esg.emulator.reproduce.study import Study, wins
from esg.emulator.reproduce.texts import number, rate, rate_of
from esg.emulator.scenario import SETTINGS
from esg.reporting.page import NOSCRIPT, figure_section, row, section, whole_page
from esg.version import __version__

TITLE = "The evaluation of ESG, done again"


def page(study: Study, *, ended: datetime) -> str:
    """The whole file. `ended` is when the study did."""
    return whole_page(
        TITLE,
        f"<header><h1>{escape(TITLE)}</h1>{_summary(study)}</header>",
        NOSCRIPT,
        section("How it was made", _how(study, ended)),
        section("The paper's claims", _claims(study)),
        section("Where each one wins", _wins(study.results)),
        *(
            figure_section(number, figure, by_threes=True)
            for number, figure in enumerate(figures(study), 1)
        ),
        section("All readings", _readings(study.results)),
        made_by="esg",
    )


def _summary(study: Study) -> str:
    results = study.results
    rates = "; ".join(
        f"{setting} {rate(results.mean(main(setting, 'esg'), 'slo_hit_rate'))} %"
        for setting in SETTINGS
    )
    return (
        '<p class="lead">ESG is a scheduler for pipelines of neural networks on shared GPUs. For '
        "every queue of requests it chooses a batch size and a share of CPU and GPU, so that each "
        "pipeline ends before its deadline (its SLO) at the least cost. Its paper (HPDC '24) "
        "compares it with INFless, FaST-GShare, Orion and Aquatope. This page does the same again, "
        "with an independent implementation in an emulated cluster. <strong>"
        f"{study.reproduced} of {len(study.claims)} claims were reproduced.</strong> "
        "The profiles of the functions, which decide most of that, are modelled: the paper's are "
        f"not public. ESG's share of requests answered in time: {escape(rates)}.</p>"
    )


def _how(study: Study, ended: datetime) -> str:
    size, cluster = study.results.size, study.catalog.cluster
    applications = ", ".join(study.catalog.applications)
    items = (
        f"Made with <code>{escape(study.command)}</code>, version {escape(__version__)}, "
        f"on {ended.isoformat(' ', 'minutes')}: {size.requests:,} requests per run, "
        f"{size.seeds} seed{'s' * (size.seeds > 1)}, "
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
        "comparison uses the one that does best here: "
        + ", ".join(f"<code>{escape(policy)}</code>" for policy in _chosen(study.results))
        + ". What they are is said under “All readings”.",
    )
    return _list(items)


def _chosen(results: Results) -> list[str]:
    """Of the systems that have several readings."""
    return [results.reading(system) for system, readings in SYSTEMS.items() if len(readings) > 1]


def _claims(study: Study) -> str:
    """One table per section of the paper."""
    margins = (
        "Verdicts go by the means over all seeds, unless it is said that a margin decides; "
        "±: 95 % confidence interval of the mean."
        if study.results.size.seeds > 1
        else "There is one seed, which does not tell how far our numbers may be off."
    )
    intro = _paragraph(
        "A claim counts as reproduced when ours has the same sign and is within the paper's range, "
        f"or beyond it in ESG's favour. {margins}"
    )
    rows = []
    section = ""
    for claim in study.claims:
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
    head = row("th", ("Claim", "Paper", "Here", "Verdict"))
    body = "".join(rows)
    return f'{intro}<table class="claims"><thead>{head}</thead><tbody>{body}</tbody></table>'


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
    return f"<ul>{''.join(items)}</ul>{_paragraph(level_rule(results))}"


def _noise(study: Study) -> str:
    spreads = sorted({f.profile.relative_std for f in study.catalog.functions.values()})
    return " or ".join(f"{100 * spread:g} %" for spread in spreads)


def _readings(results: Results) -> str:
    margins = ", with 95 % margins" if results.size.seeds > 1 else ""
    intro = _paragraph(
        f"Hit rate in percent and cost relative to ESG{margins}. {CAPTION} The readings in bold "
        "stand for their system in the comparison. Limits: the hit rate of unlimited warm "
        "resources, and the least it costs to be in time, with every batch full; nobody reaches "
        "both, and a policy that misses deadlines can cost less."
    )
    head = row("th", ("System", "Reading", *(f"{s}: {w}" for s in SETTINGS for w in _FIGURES)))
    rows = []
    for system, readings in SYSTEMS.items():
        best = results.reading(system)
        for policy in readings:
            kind = "best" if policy == best else ""
            rows.append(row("td", (system, policy, *_pair(results, policy)), kind))
    rows.append(row("td", ("ESG", "esg, with A*", *_pair(results, "esg-astar"))))
    rows.append(row("td", ("Ours", "apex", *_pair(results, "apex"))))
    rows.append(row("td", ("Limits", "ceiling, floor", *_pair(results, "limits"))))
    table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    return f'{intro}<div class="wide">{table}</div>{_what_they_are(results)}'


def _what_they_are(results: Results) -> str:
    items = [f"<strong>{escape(name)}</strong>: {escape(t)}" for name, t in READINGS.items()]
    same = [
        f"{policy} and {other} gave the very same orders in every run here."
        for policy, other in alike(results)
    ]
    deviations = [f"<strong>{escape(s)}</strong>: {escape(t)}" for s, t in DEVIATIONS.items()]
    return (
        f"<h3>What they are</h3>{_list(items)}"
        + "".join(_paragraph(text) for text in same)
        + f"<h3>Where ours are not what the paper describes</h3>{_list(deviations)}"
    )


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


_FIGURES = ("hit rate", "cost")


def _pair(results: Results, policy: str) -> Iterable[str]:
    for setting in SETTINGS:
        cost = results.relative(main(setting, policy), main(setting, "esg"), COST)
        yield rate_of(results, main(setting, policy))
        yield number(results, cost, 2)


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"
