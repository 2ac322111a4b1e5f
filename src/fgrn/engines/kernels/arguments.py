"""Arrays that kernels take together: one named tuple for each group, so that a call says what it hands over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Packing(NamedTuple):
    """Where packs, their leaves and the Sources of their Diverters are: see `packing`.

    A record is a row of numbers; NONE, the largest, stands where there is nothing.

    packs     start of its joint table, cells of a row, states of the Diverter, leaves, where its shifts begin, codes,
              whether it has a code of nothing known, where the posterior of its Diverter begins
    leaves    of all packs in order: where the table begins, its columns, codes; where the counts of the codes are
              among the folded ones, or NONE for those of a pack by itself
    folds     of all packs, one less than its leaves each: sums of rows (outer, inner) over either; whether the rows are
              those of the pack, else where they are among the folded ones; outer, inner; where the two sums are put
    unknown   leaves that no row knows: table, its columns, its rows, posterior of the Diverter
    sources   of the Diverters: prior, posterior of the Diverter, its space, its run, index vector
    priors    the same of those that the product of the priors of a star is made of
    space     (1,): joint states of the first Diverter
    """

    packs: np.ndarray
    leaves: np.ndarray
    folds: np.ndarray
    unknown: np.ndarray
    sources: np.ndarray
    priors: np.ndarray
    space: np.ndarray


class StarRows(NamedTuple):
    """What is known in a block of rows of a star.

    entries, bounds   of gathered leaves, see `packs.Known`
    codes, soft       evidence on the hidden variable; both are empty if there is none
    """

    entries: np.ndarray
    bounds: np.ndarray
    codes: np.ndarray
    soft: np.ndarray


class StarTables(NamedTuple):
    """The parameters of a star: the product of its priors, and its joint tables, see `packs.Joint`."""

    size: np.uint64
    stride: np.uint64
    deep: bool
    base: np.ndarray
    joint: np.ndarray
    shifts: np.ndarray


class StarWork(NamedTuple):
    """Where the products of some rows of a star are made.

    products, norms, taken   of each row: the product, its sum, and a logarithm that was taken out of it
    mantissa, exponent       a product in which each state has an exponent of its own
    """

    products: np.ndarray
    norms: np.ndarray
    taken: np.ndarray
    mantissa: np.ndarray
    exponent: np.ndarray
