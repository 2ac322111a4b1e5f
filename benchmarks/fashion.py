"""A mixture of hidden trees of the images of Fashion-MNIST on a GPU: bits per pixel of the test images, and seconds.

    python -m benchmarks.fashion build/fashion [--output fashion.json] [--images images.npz] [--trees 40 ...]
    python -m benchmarks.fashion images.npz --picture fashion.png

needs NumPy, PyTorch, a GPU, and the files of the Debian package dataset-fashion-mnist in that folder. The last 5,000
of the 60,000 training images are held out for validation. Settings that are not given are the defaults of
`HiddenTreeModel`: one tree is learnt by mini-batch EM, then trees that share its tables of pixels (`tree_mixture`).
With `--images`, lower halves of test images are imputed, and images are drawn at random; `--picture` shows them.
"""

from __future__ import annotations

import argparse
import cProfile
import gzip
import json
import pstats
import time
from pathlib import Path
from typing import Any

import numpy as np

from fgrn import Network, TreeMixture, hidden_tree, tree_mixture
from fgrn.bayes import mixture_learning, tree_defaults
from fgrn.bayes.hidden_trees import counts_of_prior
from fgrn.bayes.tree_defaults import TreeSizes, default_batch_size
from fgrn.tables.encoded import Evidence

LEVELS, HELD_OUT, SHOWN = 256, 5000, 12


def images(folder: Path, name: str) -> np.ndarray:
    """The images of a file in the format of MNIST, (images, pixels)."""
    content = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())
    return np.frombuffer(content, dtype=np.uint8, offset=16).reshape(-1, 784)


def table_of(pixels: np.ndarray) -> Evidence:
    """Images as rows of codes."""
    names = tuple(f"p{number}" for number in range(pixels.shape[1]))
    return Evidence.of_codes(names, np.asfortranarray(pixels, dtype=np.int16))


def bits(model: Network | TreeMixture, table: Evidence, where: dict[str, Any]) -> float:
    """Bits per pixel, by the log-likelihood of each image."""
    found = model.propagate(table, keep=[], parts=["likelihood"], engine="torch", **where).log_likelihood
    return float(-found.mean() / 784 / np.log(2))


def made_by(mixture: TreeMixture, test: np.ndarray, where: dict[str, Any]) -> dict[str, np.ndarray]:
    """Test images, the same with the lower half imputed in two ways, and new ones drawn at random, (images, 28, 28)."""
    shown = test[:SHOWN]
    halves = np.array(shown, dtype=np.int16)
    halves[:, 392:] = -1
    table = table_of(halves)
    names = list(table.columns)
    seen = mixture.propagate(table, keep=names[392:], parts=["marginal"], engine="torch", **where)
    expected = np.stack([seen.marginal(name) @ np.arange(LEVELS) for name in names[392:]], axis=1)
    drawn, new = mixture.sample(1, table, seed=0), mixture.sample(SHOWN, seed=0)
    found = {
        "test images": shown,
        "lower half: expected grey": np.hstack([shown[:, :392], expected]),
        "lower half: drawn at random": np.stack([drawn[name] for name in names], axis=1),
        "drawn at random": np.stack([new[name] for name in names], axis=1),
    }
    return {name: np.asarray(some, dtype=np.float32).reshape(-1, 28, 28) for name, some in found.items()}


def draw(images: Path, picture: Path) -> None:
    """Show images that were made, a line for each kind."""
    from matplotlib.figure import Figure

    lines = dict(np.load(images))
    figure = Figure(figsize=(7, 0.72 * len(lines) + 0.5), layout="constrained")
    for title, some, axes in zip(lines, lines.values(), figure.subplots(len(lines), 1), strict=True):
        axes.imshow(np.hstack(list(some)), cmap="gray_r", vmin=0, vmax=LEVELS - 1)
        axes.set_title(title, fontsize=8, loc="left", pad=2)
        axes.set_axis_off()
    figure.savefig(picture, dpi=130)


class Clock:
    """Tells the seconds since it was asked last."""

    def __init__(self) -> None:
        self.begun = self.last = time.perf_counter()

    def __call__(self) -> float:
        now = time.perf_counter()
        passed, self.last = now - self.last, now
        return round(passed, 1)

    @property
    def all(self) -> float:
        """Since it was made."""
        return round(time.perf_counter() - self.begun, 1)


def measured(tables: dict[str, Evidence], given: argparse.Namespace) -> tuple[dict[str, Any], TreeMixture | None]:
    """Learn one tree, then the mixture; bits per pixel and seconds of each, and the mixture."""
    where = {"device": given.device, "precision": given.precision}
    train, clock, mixture = tables["train"], Clock(), None
    net = hidden_tree(
        train, given.hidden, states=dict.fromkeys(train.columns, LEVELS), engine="torch", device=given.device
    )
    told: dict[str, Any] = {"tree found": clock()}
    print(f"  tree found in {told['tree found']} s", flush=True)
    history = net.learn(
        train, epochs=given.epochs, smoothing=counts_of_prior(net, train, given.smoothing, trees=1),
        batch_size=given.batch_size, step=tree_defaults.FIRST_AND_LAST_STEP, validation=tables["validation"],
        patience=given.patience, engine="torch", **where,
    )  # fmt: skip
    told["one tree"] = {"epochs": history.epochs, "seconds": clock()}
    told["one tree"]["validation"] = float(-np.max(history.validation) / 784 / np.log(2))
    told["one tree"]["test"] = bits(net, tables["test"], where)
    told["execution"] = history.execution
    print(f"  one tree: {told['one tree']} {history.execution}", flush=True)
    if given.trees > 1:
        clock()
        with cProfile.Profile() as profile:
            mixture = tree_mixture(
                net, train, given.trees, rounds=given.rounds, epochs=given.tree_epochs, strength=given.strength,
                validation=tables["validation"], engine="torch", **where,
            )  # fmt: skip
        told["mixture"] = {"trees": mixture.trees, "seconds": clock()}
        for part in ("validation", "test"):
            told["mixture"][part] = bits(mixture, tables[part], where)
        print(f"  mixture: {told['mixture']}", flush=True)
        if given.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    return told, mixture


def main() -> None:
    """Learn, and write what was found."""
    pixels = TreeSizes.sharing(LEVELS, 55_000)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision")
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--hidden", type=int, default=pixels.states)
    parser.add_argument("--epochs", type=int, default=tree_defaults.MOST_EPOCHS)
    parser.add_argument("--batch-size", type=int, default=default_batch_size(55_000))
    parser.add_argument("--patience", type=int, default=tree_defaults.PATIENCE)
    parser.add_argument("--smoothing", type=float, default=1.0)
    parser.add_argument("--trees", type=int, default=pixels.trees)
    parser.add_argument("--strength", type=float, default=mixture_learning.STRENGTH)
    parser.add_argument("--tree-epochs", type=int, default=mixture_learning.TREE_EPOCHS)
    parser.add_argument("--rounds", type=int, default=mixture_learning.ROUNDS)
    parser.add_argument("--profile", action="store_true", help="print where the mixture spends its time")
    parser.add_argument("--images", type=Path, help="where to write images that the mixture makes")
    parser.add_argument("--picture", type=Path, help="show images that were written before, and nothing else")
    given = parser.parse_args()
    if given.picture:
        draw(given.folder, given.picture)
        return
    every = images(given.folder, "train")[: given.rows]
    kept = min(HELD_OUT, len(every) // 10)
    pixels_of = {
        "train": every[:-kept],
        "validation": every[-kept:],
        "test": images(given.folder, "t10k")[: given.rows],
    }
    begun = Clock()
    told, mixture = measured({name: table_of(some) for name, some in pixels_of.items()}, given)
    told["seconds"] = begun.all
    told["settings"] = {name: str(value) for name, value in vars(given).items()}
    print(f"  {told['seconds']} s in all", flush=True)
    if given.output:
        given.output.write_text(json.dumps(told, indent=1) + "\n")
    if given.images and mixture is not None:
        where = {"device": given.device, "precision": given.precision}
        np.savez_compressed(given.images, **made_by(mixture, pixels_of["test"], where))


if __name__ == "__main__":
    main()
