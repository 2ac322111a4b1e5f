"""A hidden tree of the images of Fashion-MNIST on a GPU: bits per pixel of the test images, and seconds.

    python -m benchmarks.fashion build/fashion --output fashion.json [--trees 40]

needs NumPy, PyTorch, a GPU, and the files of the Debian package dataset-fashion-mnist in that folder. The last 5,000
of the 60,000 training images are kept back for validation. One tree is learnt by mini-batch EM, with
the prior of `HiddenTreeModel`.
With --trees, a mixture of trees follows that share the tables of pixels with that tree: images are put into groups by
k-means, each group learns its own tables between hidden variables from a prior of --strength rows of the single tree's,
images go to the tree under which they are most probable, and that is done --rounds times. The tree is found on the GPU.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from fgrn import SISO, Network, engines, hidden_tree
from fgrn.bayes import hidden_trees
from fgrn.bayes.hidden_trees import counts_of_prior
from fgrn.tables.encoded import Evidence

LEVELS, KEPT_BACK = 256, 5000


def images(folder: Path, name: str) -> np.ndarray:
    """The images of a file in the format of MNIST, (images, pixels)."""
    content = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())
    return np.frombuffer(content, dtype=np.uint8, offset=16).reshape(-1, 784)


def table_of(pixels: np.ndarray) -> Evidence:
    """Images as rows of codes."""
    names = tuple(f"p{number}" for number in range(pixels.shape[1]))
    return Evidence.of_codes(names, np.asfortranarray(pixels, dtype=np.int16))


class Scores:
    """The log-likelihood of each row of a table under networks that are alike but for their tables."""

    def __init__(self, net: Network, table: Evidence, where: dict[str, str]) -> None:
        plan = net._plan(())
        rows = table.on(plan)
        programs = net._programs_for(plan, (), rows)
        self._prepared = engines.get("torch", **where).prepare(plan, programs, programs.marginals([]), rows)

    def __call__(self, net: Network) -> np.ndarray:
        """Of each row."""
        found: np.ndarray = self._prepared.load(net._parameters.values).propagate(("likelihood",)).log_likelihood
        return found


def bits(likelihood: np.ndarray) -> float:
    """Bits per pixel, from the log-likelihood of each image."""
    return float(-likelihood.mean() / 784 / np.log(2))


def information(codes: np.ndarray, device: str) -> np.ndarray:
    """The mutual information of all pairs of pixels in 32 bins, in nats, as `hidden_tree` has it, by the device."""
    import torch

    columns, bins = codes.shape[1], hidden_trees.COARSE
    known = torch.as_tensor(np.ascontiguousarray(codes.T) * bins // LEVELS, device=device).long()
    places = known + bins * torch.arange(columns, device=device)[:, None]
    one_hot = torch.zeros((columns * bins, codes.shape[0]), device=device)
    one_hot.scatter_(0, places, 1.0)
    single = one_hot.sum(1).double()
    entropy = torch.special.xlogy(single, single).view(columns, bins).sum(1)
    out = torch.zeros((columns, columns), dtype=torch.float64)
    for column in range(columns):
        both = one_hot[column * bins : (column + 1) * bins] @ one_hot.T  # whole numbers: exact
        cells = torch.special.xlogy(both.double(), both.double()).view(bins, columns, bins).sum((0, 2))
        out[column] = (cells - entropy[column] - entropy).cpu() / len(codes) + np.log(len(codes))
    return out.numpy()


def one_tree(train: Evidence, validation: Evidence, arguments: argparse.Namespace, where: dict[str, str]) -> Network:
    """Learn the tree; what is printed are seconds and bits."""
    names = train.columns
    begun = time.perf_counter()
    some = train.take(np.random.default_rng(0).permutation(train.rows)[: arguments.tree_rows])
    hidden_trees.score_of_edges = lambda *_: information(some.codes, arguments.device)
    net = hidden_tree(some, arguments.hidden, states=dict.fromkeys(names, LEVELS))
    print(f"  tree found in {time.perf_counter() - begun:.1f} s", flush=True)
    begun = time.perf_counter()
    history = net.learn(
        train, epochs=arguments.epochs, smoothing=counts_of_prior(net, train, arguments.smoothing, trees=1),
        batch_size=arguments.batch_size, step=(arguments.first_step, arguments.last_step), validation=validation,
        patience=arguments.patience, engine="torch", **where,
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    kept_back = -np.max(history.validation) / 784 / np.log(2)
    print(f"  {history.epochs} epochs in {seconds:.1f} s, validation {kept_back:.4f}: {history.execution}", flush=True)
    return net


def k_means(pixels: np.ndarray, groups: int, rounds: int = 12) -> np.ndarray:
    """The group of each image."""
    points = pixels.astype(np.float32) / LEVELS
    draw = np.random.default_rng(0)
    centres = points[draw.choice(len(points), groups, replace=False)]
    for _ in range(rounds):
        nearest = (2 * points @ centres.T - (centres**2).sum(1)).argmax(1)
        centres = np.stack([
            points[nearest == one].mean(0) if (nearest == one).any() else centres[one] for one in range(groups)
        ])  # fmt: skip
    return nearest


def mixture(
    net: Network, pixels: dict[str, np.ndarray], arguments: argparse.Namespace, where: dict[str, str]
) -> dict[str, Any]:
    """Trees that share the tables of pixels; bits per pixel after every round."""
    train = table_of(pixels["train"])
    score = Scores(net, table_of(np.concatenate(list(pixels.values()))), where)
    ends = np.cumsum([len(some) for some in pixels.values()])
    links = [
        block.output.name for block in net.blocks if isinstance(block, SISO) and block.output.name not in train.columns
    ]
    prior = {name: arguments.strength * net.table(name) for name in links}
    group, told = k_means(pixels["train"], arguments.trees), {}
    for number in range(arguments.rounds):
        found, weights = [], []
        for one in range(arguments.trees):
            mine = np.flatnonzero(group == one)
            weights.append(max(len(mine), 1) / len(group))
            member = net.copy()
            if len(mine):
                member.learn(
                    train.take(mine), epochs=arguments.tree_epochs, only=links, smoothing=prior, engine="torch",
                    merge=False, **where,
                )  # fmt: skip
            found.append(score(member))
        every = np.stack(found) + np.log(weights)[:, None]
        logs = dict(zip(pixels, np.split(every, ends[:-1], axis=1), strict=True))
        group = logs["train"].argmax(0)
        told[f"round {number + 1}"] = {
            name: bits(np.logaddexp.reduce(some, axis=0)) for name, some in logs.items() if name != "train"
        }
        print(f"  round {number + 1}: {told[f'round {number + 1}']}", flush=True)
    return told


def main() -> None:
    """Learn, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--tree-rows", type=int, default=20000, help="rows from which the tree is found")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=1718)
    parser.add_argument("--first-step", type=float, default=0.55)
    parser.add_argument("--last-step", type=float, default=0.03)
    parser.add_argument("--patience", type=int, default=5)
    parser.add_argument("--smoothing", type=float, default=1.0)
    parser.add_argument("--trees", type=int, default=0)
    parser.add_argument("--strength", type=float, default=15.0)
    parser.add_argument("--tree-epochs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    where = {"device": arguments.device, "precision": arguments.precision}
    every = images(arguments.folder, "train")[: arguments.rows]
    kept = min(KEPT_BACK, len(every) // 10)
    pixels = {"train": every[:-kept], "validation": every[-kept:], "test": images(arguments.folder, "t10k")}
    if arguments.rows < 60000:
        pixels["test"] = pixels["test"][: arguments.rows]
    begun = time.perf_counter()
    net = one_tree(table_of(pixels["train"]), table_of(pixels["validation"]), arguments, where)
    test = bits(Scores(net, table_of(pixels["test"]), where)(net))
    told: dict[str, Any] = {
        "settings": {name: str(value) for name, value in vars(arguments).items()},
        "one tree": {"test": test, "seconds": time.perf_counter() - begun},
    }
    print(f"  one tree: {told['one tree']}", flush=True)
    if arguments.trees:
        begun = time.perf_counter()
        told["mixture"] = mixture(net, pixels, arguments, where)
        told["mixture"]["seconds"] = time.perf_counter() - begun
    if arguments.output:
        arguments.output.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
