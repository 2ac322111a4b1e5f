"""What was measured, as a table and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .measure import FIRST_CALL, Result

PROGRAMS = ("StepMix", "pomegranate", "NumPy", "hmmlearn", "pyAgrum", "pgmpy")


def _seconds(value: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def table(results: list[Result]) -> str:
    """Markdown."""
    lines = ["| what | | ours | beside | theirs | ratio | goal |", "|---|---|---|---|---|---|---|"]
    for result in results:
        goal = "" if result.goal is None else f"{'≤' if result.at_most else '≥'} {result.goal:g} "
        goal += {True: "met", False: "**missed**", None: ""}[result.met]
        sides = [_seconds(result.ours), result.peer, _seconds(result.theirs)]
        if result.note:
            sides = [result.note, result.peer, ""]
        what = result.what.replace("|", r"\|")
        lines.append(f"| {result.name} | {what} | {' | '.join(sides)} | {result.ratio:.3g} | {goal} |")
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
    """Ratios to peers, longest bar first, on a logarithmic axis; the goals as ticks."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = [result for result in results if result.peer.split(",")[0].split(" ")[0] in PROGRAMS]
    shown.sort(key=lambda result: result.ratio)
    figure, axes = plt.subplots(figsize=(9, 0.42 * len(shown) + 1.2), layout="constrained")
    places = range(len(shown))
    axes.barh(places, [r.ratio for r in shown], color="#3b6ea5", height=0.62)
    for place, result in zip(places, shown, strict=True):
        axes.text(result.ratio * 1.06, place, f"{result.ratio:.3g}", va="center", fontsize=9, color="#222222")
        if result.goal is not None:
            axes.plot([result.goal] * 2, [place - 0.38, place + 0.38], color="#d1495b", linewidth=2.5)
    axes.set_yticks(places, [f"{r.name}: {r.peer}" for r in shown], fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(0.8, max(r.ratio for r in shown) * 2.5)
    axes.set_xlabel("times as fast as the peer (red: the goal)")
    axes.set_title("Learning and inference, measured side by side", loc="left", fontsize=11)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.xaxis.set_major_formatter("{x:g}")
    figure.savefig(path)
