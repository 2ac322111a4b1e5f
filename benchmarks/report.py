"""What was measured, as a table and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fgrn.plots.style import AGAINST, FOR, LINE, PAPER, save, styled

from .measure import FIRST_CALL, Result

PROGRAMS = ("StepMix", "pomegranate", "NumPy", "hmmlearn", "pyAgrum", "pgmpy")


def _seconds(value: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _times(ratio: float) -> str:
    """A ratio with three digits at least, and without an exponent."""
    digits = 0 if ratio >= 100 else 1 if ratio >= 10 else 2
    return f"{ratio:,.{digits}f}" if ratio < 1000 else f"{round(ratio, -len(str(int(ratio))) + 3):,.0f}"


def table(results: list[Result]) -> str:
    """Markdown. What was measured against a limit, and not against another side, has no ratio."""
    lines = ["| what | | ours | beside | theirs | ratio |", "|---|---|---|---|---|---|"]
    for result in results:
        cells = [_seconds(result.ours), result.peer, _seconds(result.theirs), _times(result.ratio)]
        if result.note:
            alone = result.goal == 1 or result.peer == "itself"
            cells = [result.note, *(["", "", ""] if alone else [result.peer, "", _times(result.ratio)])]
        what = result.what.replace("|", r"\|")
        lines.append(f"| {result.name} | {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def growth_table(slopes: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| what grows | from | to | time grows by its power of |", "|---|---|---|---|"]
    lines += [f"| {s['what']} | {s['points'][0]:,} | {s['points'][-1]:,} | {s['power']:.2f} |" for s in slopes]
    return "\n".join(lines)


def first_calls_table(results: list[Result]) -> str:
    """Markdown."""
    lines = ["| the first call is | on a new machine | in later processes |", "|---|---|---|"]
    lines += [f"| {result.what} | {result.ours:.1f} s | {result.theirs:.1f} s |" for result in results]
    return "\n".join(lines)


def fill(page: Path, here: dict[str, Any], results: list[Result], slopes: list[dict[str, Any]]) -> None:
    """Put the machine and the tables into the page, between its marks."""
    text = page.read_text()
    where = f"{here['processor']}, {here['cores']} cores, Python {here['python']}, NumPy {here['numpy']}, "
    where += f"Numba {here['numba']}."
    first = [result for result in results if result.name == FIRST_CALL]
    others = [result for result in results if result.name != FIRST_CALL]
    parts = {"machine": where, "results": table(others), "growth": growth_table(slopes)}
    parts["first calls"] = first_calls_table(first)
    page.write_text(filled(text, parts))


def filled(text: str, parts: dict[str, str]) -> str:
    """A page with other contents between its marks."""
    for mark, content in parts.items():
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        text = text[: text.index(begin) + len(begin)] + f"\n\n{content}\n\n" + text[text.index(end) :]
    return text


def picture(path: Path, results: list[Result]) -> None:
    """How many times as long other programs take, by what was measured, on a logarithmic axis."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.peer.split(",")[0].split(" ")[0] in PROGRAMS:
            named = result.what.partition(":")[0] in result.name  # the network is in both
            groups.setdefault(result.what if named else f"{result.name}: {result.what}", []).append(result)
    with styled():
        lines = sum(1 + len(group) for group in groups.values()) + 0.4 * len(groups)
        figure = Figure(figsize=(8.6, 0.235 * lines + 1.0), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        y, ticks = 0.0, []
        for heading, group in groups.items():
            axes.annotate(
                heading, (0, y), (0, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=8,
                weight="bold", bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1}, zorder=3,
            )  # fmt: skip
            for result in sorted(group, key=lambda one: -one.ratio):
                y += 1
                faster = result.ratio >= 1
                axes.barh(y, result.ratio - 1, 0.66, left=1, color=FOR if faster else AGAINST)
                axes.annotate(
                    f"{_times(result.ratio)} ×", (max(result.ratio, 1), y), (4, 0), textcoords="offset points",
                    va="center_baseline", fontsize=8,
                )  # fmt: skip
                ticks.append((y, result.peer))
            y += 1.4
        most = max(result.ratio for group in groups.values() for result in group)
        axes.set(xlim=(0.5, 4 * most), ylim=(y - 0.7, -0.7), xlabel="times as long as fgrn takes for the same work")
        axes.axvline(1, color=LINE, linewidth=0.8, zorder=0)
        powers = [10**power for power in range(len(str(int(most))))]
        axes.set_xticks(powers, [f"{power:,}" for power in powers])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yticks([at for at, _ in ticks], [peer for _, peer in ticks])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        heading = "Time of other programs, as a multiple of that of fgrn"
        figure.suptitle(heading, x=0.01, ha="left", fontsize=10, weight="bold")
    save(figure, path)
