"""The demonstration: handwritten digits learnt, classified, shown as prototypes, and completed from their upper half.

`python -m fgrn.demo`. The table needs no network: scikit-learn brings it along. Eight by eight pixels in four shades of
grey are 64 observed variables; the digit is one more; one hidden variable explains them all.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from . import structures
from .exceptions import FgrnError
from .network import Network

SHADES = 4
SIDE = 8
TRAINED = 1300
PIXELS = [f"pixel {row} {column}" for row in range(SIDE) for column in range(SIDE)]


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fgrn.demo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("fgrn-demo"), help="folder for the pictures (%(default)s)")
    parser.add_argument("--hidden", type=int, default=100, help="states of the hidden variable (%(default)s)")
    parser.add_argument("--epochs", type=int, default=40, help="epochs of learning (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        _run(options.output, options.hidden, options.epochs)
    except ImportError as error:
        print(f"The demonstration needs {error.name}: pip install 'fgrn[demo]'.", file=sys.stderr)
        return 1
    except (FgrnError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(output: Path, hidden: int, epochs: int) -> None:
    images, digits = _digits()
    train, test = slice(0, TRAINED), slice(TRAINED, None)
    print(f"{len(digits):,} handwritten digits, {SIDE} x {SIDE} pixels in {SHADES} shades of grey;")
    print(f"the first {TRAINED:,} to learn from, the other {len(digits) - TRAINED} to be tested on.\n")

    net = structures.lvm({**dict.fromkeys(PIXELS, SHADES), "digit": 10}, hidden=hidden)
    began = time.perf_counter()
    history = net.learn(
        {**_columns(images[train]), "digit": digits[train]}, epochs=epochs, smoothing=0.1, watch=_progress(epochs)
    )
    took = time.perf_counter() - began
    first, last = history.per_row[[0, -1]]
    print(f"Learnt in {took:.1f} s: {history.epochs} epochs, log-likelihood per digit {first:.1f} -> {last:.1f}.\n")

    ours = float(np.mean(net.classify(_columns(images[test]), "digit") == digits[test]))
    print("Accuracy on digits it has not seen")
    for who, share in {
        f"fgrn, {hidden} hidden states": ours,
        "CategoricalNB of scikit-learn": _naive_bayes(images, digits, train, test),
    }.items():
        print(f"  {who:32} {share:6.1%}")
    print()

    output.mkdir(parents=True, exist_ok=True)
    prototypes = output / "prototypes.png"
    completed = output / "completed.png"
    _draw_prototypes(net, prototypes)
    _draw_completed(net, images[test], digits[test], completed)
    print("Pictures")
    print(f"  {prototypes}  what each digit looks like to the network")
    print(f"  {completed}   lower halves it never saw, filled in from the upper ones\n")
    print("The same with your own table:")
    print('  table = pandas.read_csv("yours.csv", dtype=str)')
    print("  net = fgrn.lvm(fgrn.states(table), hidden=8)")
    print("  net.learn(table, smoothing=0.1)")
    print("  net.complete(table)")


def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    shades = np.minimum(bunch.data.astype(int) * SHADES // 17, SHADES - 1)
    return shades, bunch.target


def _columns(images: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(PIXELS, images.T, strict=True))


def _naive_bayes(images: np.ndarray, digits: np.ndarray, train: slice, test: slice) -> float:
    from sklearn.naive_bayes import CategoricalNB

    other = CategoricalNB(min_categories=SHADES).fit(images[train], digits[train])
    return float(other.score(images[test], digits[test]))


class _progress:
    """A bar on the terminal, and nothing where there is none."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def __call__(self, start: int, epoch: int, per_row: float) -> None:
        if not sys.stderr.isatty():
            return
        done = (epoch + 1) * 30 // self.epochs
        end = "\n" if epoch + 1 == self.epochs else ""
        bar = "━" * done + "─" * (30 - done)
        print(f"\r{bar} epoch {epoch + 1}/{self.epochs}, {per_row:.2f} per digit", end=end, file=sys.stderr, flush=True)


def _mean_shade(beliefs: dict[str, np.ndarray]) -> np.ndarray:
    means = [beliefs[name] @ np.arange(SHADES) for name in PIXELS]
    return np.array(means).reshape(SIDE, SIDE)


def _draw_prototypes(net: Network, path: Path) -> None:
    figure, axes = _grid(2, 5)
    for digit, axis in enumerate(axes.flat):
        _image(axis, _mean_shade(net.prototype("digit", digit)), str(digit))
    figure.suptitle("Prototype of each digit: expected shade of every pixel")
    _save(figure, path)


def _draw_completed(net: Network, images: np.ndarray, digits: np.ndarray, path: Path) -> None:
    chosen = [int(np.flatnonzero(digits == digit)[3]) for digit in range(10)]
    upper = images[chosen].astype(object)
    upper[:, len(PIXELS) // 2 :] = None
    rows = {name: upper[:, i].tolist() for i, name in enumerate(PIXELS)}
    seen = net.propagate(rows)
    named = net.classify(rows, "digit")
    figure, axes = _grid(3, 10)
    for column, number in enumerate(chosen):
        shown = np.where(upper[column] == None, np.nan, upper[column]).astype(float)  # noqa: E711 - elementwise
        filled = _mean_shade({name: seen.marginal(name)[column] for name in PIXELS})
        for axis, picture, title in zip(
            axes[:, column],
            (shown.reshape(SIDE, SIDE), filled, images[number].reshape(SIDE, SIDE)),
            ("", f"a {named[column]}", f"was a {digits[number]}"),
            strict=True,
        ):
            _image(axis, picture, title)
    for axis, label in zip(axes[:, 0], ("given", "completed", "truth"), strict=True):
        axis.set_ylabel(label, fontsize=11)
    figure.suptitle("Digits completed from their upper half")
    _save(figure, path)


def _grid(rows: int, columns: int):  # type: ignore[no-untyped-def]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.15 * columns, 1.35 * rows + 0.5), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns)


def _image(axis, picture: np.ndarray, title: str) -> None:  # type: ignore[no-untyped-def]
    axis.set_facecolor("#dfe8f2")
    axis.imshow(picture, cmap="gray_r", vmin=0, vmax=SHADES - 1)
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set_color("#9aa7b5")
    if title:
        axis.set_title(title, fontsize=10)


def _save(figure, path: Path) -> None:  # type: ignore[no-untyped-def]
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
