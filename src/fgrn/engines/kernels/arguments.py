"""Arguments of kernels: one named tuple for each group of arrays that are passed together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def _record(*fields: str) -> np.dtype:
    return np.dtype([(field, np.uint64) for field in fields])


PACK = _record("start", "stride", "states", "leaves", "shift", "codes", "has_nothing", "posterior")
LEAF = _record("table", "known", "codes", "place")
FOLD = _record("of_pack", "at", "outer", "inner", "left", "right")
UNKNOWN_LEAF = _record("table", "known", "states", "posterior")
PRIOR = _record("place", "posterior", "size", "run", "index")


class Packing(NamedTuple):
    """Offsets of packs, their leaves and the Sources of their Diverters: see `packing`.

    All but `space` are arrays of records; NONE, the largest integer, means "no offset".

    packs     PACK: start of its joint table, cells of a row, states of the Diverter, leaves, where its shifts begin,
              codes, whether it has a code of nothing known, where the posterior of its Diverter begins
    leaves    LEAF, of all packs in order: where the table begins, its columns, codes; where the counts of the codes are
              among the folded ones, or NONE for those of a pack by itself
    folds     FOLD, of all packs, one less than its leaves each: sums of rows (outer, inner) over either; whether the
              rows are those of the pack, else where they are among the folded ones; where the two sums are put
    unknown   UNKNOWN_LEAF, that no row knows: table, its columns, its rows, posterior of the Diverter
    sources   PRIOR, of the Diverters: prior, posterior of the Diverter, its space, its run, index vector
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
    """The evidence in a block of rows of a star.

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
    """Scratch arrays for the products of some rows of a star.

    products, norms, taken   of each row: the product, its sum, and a logarithm that was taken out of it
    """

    products: np.ndarray
    norms: np.ndarray
    taken: np.ndarray


class CarefulProduct(NamedTuple):
    """Scratch arrays for one product in which each state has an exponent of its own."""

    mantissa: np.ndarray
    exponent: np.ndarray


class SortedEntries(NamedTuple):
    """The entries of packs in each piece of rows, sorted by their codes; see `packing.sort_entries`.

    blocks    the first piece of each block of rows, and the number of pieces
    begins    the first row of each piece, and the number of rows
    rows      the row of each entry, counted from the first of its piece
    offsets   (pieces, codes + 1): where the entries of a code begin
    """

    blocks: np.ndarray
    begins: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray


class StarTask(NamedTuple):
    """What epochs of a star are computed from, beside the parameters.

    known, weights   the evidence in all rows, and their weights
    order            the entries of packs in pieces of rows, sorted by their codes
    packing, maps    the packs, and the index vectors of the plan
    groups           (groups + 1, 3): the first pack of a group of packs, its first leaf and its first fold
    sizes            the first fields of `StarTables`
    expect           whether missing values are counted as the model expects them
    update           the M-step, see `fgrn.engines.protocol.MStep`; without lines there is none
    """

    known: StarRows
    weights: np.ndarray
    order: SortedEntries
    packing: Packing
    maps: np.ndarray
    groups: np.ndarray
    sizes: tuple[np.uint64, np.uint64]
    expect: bool
    update: NamedTuple


class StarRoom(NamedTuple):
    """Arrays for the tables of a star under one vector of parameters at a time, and for the counts under them.

    They have room for several vectors, which threads work on at the same time: all have one more dimension, the first.

    joint, shifts, base   joint tables and the product of the priors, see `packs.Joint`
    counts                (blocks, cells): of packs, in each block of rows
    posteriors            of the hidden variable
    likelihoods           the log-likelihood of each block
    exponents             of each pack: the sum of what was taken out of its joint table
    priors                the log prior of each piece of an update
    faults                whether a product is faint, whether a line has no counts, and whether a product ever was faint
    """

    joint: np.ndarray
    shifts: np.ndarray
    base: np.ndarray
    counts: np.ndarray
    posteriors: np.ndarray
    likelihoods: np.ndarray
    exponents: np.ndarray
    priors: np.ndarray
    faults: np.ndarray


class StarScratch(NamedTuple):
    """Scratch arrays of each thread: of `fill_packs` and `add_packs`, and for products of some rows (`StarWork`)."""

    columns: np.ndarray
    codes: np.ndarray
    folded: np.ndarray
    products: np.ndarray
    norms: np.ndarray
    taken: np.ndarray


class StarEpochs(NamedTuple):
    """Several vectors of parameters, and for each the results of some epochs of EM that begin with it.

    What is in `limits`, `numbers` and `steps`, and which row of `rounds` is what, is told in `kernels.rounds`.

    values        (vectors, cells): the parameters
    limits        (vectors, 5): where the epochs of a vector end
    numbers       (vectors, 9): of epochs; and where the next one, and the last one counted, are in a round
    steps         (vectors, 4): lengths of steps to extrapolated parameters
    rounds        (vectors, 3, cells): parameters of a round; no cells in plain EM
    counts        (vectors * kept, cells): the expected counts of the last epochs of each vector: epoch e is in row
                  e % kept of its vector
    likelihoods   (vectors * most,): the log-likelihood under the parameters that each epoch begins with
    priors        (vectors * most,): their log prior
    updated       (vectors * kept, cells): the parameters after each of the last epochs
    """

    values: np.ndarray
    limits: np.ndarray
    numbers: np.ndarray
    steps: np.ndarray
    rounds: np.ndarray
    counts: np.ndarray
    likelihoods: np.ndarray
    priors: np.ndarray
    updated: np.ndarray


class Tapes(NamedTuple):
    """The instructions to run: messages, posteriors and counts, and the offsets of shown messages (see `show`)."""

    sweep: np.ndarray
    counting: np.ndarray
    places: np.ndarray


class Tables(NamedTuple):
    """The parameters of a network.

    values, transposed     in the plan's layout, with products of factors behind them (see `tape`); the same with every
                           table transposed
    joint, shifts, deep    joint tables, see `packs.Joint`
    maps                   index vectors of the plan
    """

    values: np.ndarray
    transposed: np.ndarray
    joint: np.ndarray
    shifts: np.ndarray
    deep: bool
    maps: np.ndarray


class KnownRows(NamedTuple):
    """The evidence in a block of rows: that of gathered leaves (see `packs.Known`), and all codes and distributions."""

    entries: np.ndarray
    bounds: np.ndarray
    codes: np.ndarray
    soft: np.ndarray


class Work(NamedTuple):
    """Workspaces of a block of rows, flat, `width` numbers per row: messages read and written (one array in sweeps).

    known_in, known_out    (rows, known width): whether evidence lies behind a message
    mantissa, exponent     products in which each state has an exponent of its own
    scratch                a message
    sure                   (rows,): the weights of rows that are not doubtful
    """

    width: np.uint64
    read: np.ndarray
    write: np.ndarray
    known_in: np.ndarray
    known_out: np.ndarray
    mantissa: np.ndarray
    exponent: np.ndarray
    scratch: np.ndarray
    sure: np.ndarray


class Lanes(NamedTuple):
    """Workspaces of rows side by side: messages, whether evidence is behind them, their minima, a clique's product."""

    lanes: np.uint64
    messages: np.ndarray
    known: np.ndarray
    least: np.ndarray
    product: np.ndarray
    norms: np.ndarray
    bounds: np.ndarray
    sure: np.ndarray


class RowBooks(NamedTuple):
    """Per row: its likelihood so far, and whether the probability of a state may have underflowed.

    scale, rest   the likelihood so far is exp(scale) * rest
    margin        log ratio between what is left and a state that underflow may have lost
    doubtful      rows for the fallback
    """

    scale: np.ndarray
    rest: np.ndarray
    margin: np.ndarray
    doubtful: np.ndarray


class ShownMessages(NamedTuple):
    """Output arrays for shown messages, `width` numbers per row, and for whether evidence lies behind `edges`."""

    width: np.uint64
    edges: int
    forward: np.ndarray
    backward: np.ndarray
    marginal: np.ndarray
    known_forward: np.ndarray
    known_backward: np.ndarray


class Totals(NamedTuple):
    """Arrays to which expected counts are added: of packs, posteriors and inner tables; all empty without weights."""

    weights: np.ndarray
    expect: bool
    joint: np.ndarray
    posteriors: np.ndarray
    inner: np.ndarray


class ChainTables(NamedTuple):
    """The parameters of a chain: the prior of its hidden variable, its transition table, and that table transposed."""

    prior: np.ndarray
    table: np.ndarray
    transposed: np.ndarray


class ChainRows(NamedTuple):
    """Rows of sequences: the message of each row to its hidden variable, where sequences begin, and weights."""

    local: np.ndarray
    begins: np.ndarray
    weights: np.ndarray


class PathRows(NamedTuple):
    """Rows of sequences for Viterbi: messages to the hidden variable, which of them each row has, and beginnings.

    An empty `which` means a message for each row, in order. `weights` has room for the log-weight of each sequence.
    """

    messages: np.ndarray
    which: np.ndarray
    begins: np.ndarray
    weights: np.ndarray


class HeldMessages(NamedTuple):
    """Held messages, flat: into each SISO, back to it, beliefs of Sources, and whether evidence lies behind them."""

    into: np.ndarray
    back: np.ndarray
    belief: np.ndarray
    known: np.ndarray


class HiddenTree(NamedTuple):
    """The cliques of a tree of hidden variables, by number, and their leaves grouped by clique.

    order          all cliques, parents first
    size, parent   the states of each, and the clique above it, -1 for the root
    start          where its messages begin, if each clique had one row: times the rows of a block
    message        the same for its message to its parent
    table          where the table between its parent and itself begins, (parent's states, states)
    children       (cliques + 1,): where its children begin in `child`
    leaves         (cliques + 1,): where its leaves begin in the arrays below
    leaf_column    the column of each leaf in the evidence, -1 without
    leaf_levels    its values
    leaf_table     where its table begins
    leaf_missing   where the posterior of rows begins in which it is missing
    """

    order: np.ndarray
    size: np.ndarray
    parent: np.ndarray
    start: np.ndarray
    message: np.ndarray
    table: np.ndarray
    children: np.ndarray
    child: np.ndarray
    leaves: np.ndarray
    leaf_column: np.ndarray
    leaf_levels: np.ndarray
    leaf_table: np.ndarray
    leaf_missing: np.ndarray


class HiddenTreeTables(NamedTuple):
    """The parameters of a tree of hidden variables.

    values       in the plan's layout
    transposed   the same with every table transposed, where no probability between cliques is zero
    prior        of the root
    """

    values: np.ndarray
    transposed: np.ndarray
    prior: np.ndarray


class HiddenTreeWork(NamedTuple):
    """Workspaces for some rows of a tree of hidden variables, flat.

    up        the product of what lies below each clique, later its posterior
    message   of each clique to its parent, later the posterior of the parent without it
    passed    what comes to a clique from its parent
    both      a table
    """

    up: np.ndarray
    message: np.ndarray
    passed: np.ndarray
    both: np.ndarray


class HiddenTreeRows(NamedTuple):
    """Per row: its likelihood exp(scale) * rest, and whether it may have underflowed.

    margin   how far states that were lost are below the others, at least, as a logarithm; inf without lost states
    """

    scale: np.ndarray
    rest: np.ndarray
    margin: np.ndarray
    doubtful: np.ndarray


class HiddenTreeTotals(NamedTuple):
    """The weights of rows, and arrays for expected counts: of tables, of missing values of leaves, of the prior."""

    weights: np.ndarray
    counts: np.ndarray
    missing: np.ndarray
    prior: np.ndarray


class ScoredRows(NamedTuple):
    """Rows in which all columns are known, for scores of families.

    codes     (columns, rows): the state of each column in each row
    sizes     (columns,): the number of states of each column
    weights   (rows,): the weight of each row, or (1,) of all
    train     rows from this one on are held out
    """

    codes: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray
    train: int


class ScoredBits(NamedTuple):
    """Rows in which all columns are known, as bits of words, see `bit_columns`.

    bits      (states of all columns, words): which rows have a state
    first     (columns,): the first state of each column among these; -1 for a column without bits
    sizes     (columns,): the number of states of each column
    blocks    (blocks, 3): where each block of words begins and ends, and whether its rows are held out
    weights   (blocks,): the weight of every row of a block
    """

    bits: np.ndarray
    first: np.ndarray
    sizes: np.ndarray
    blocks: np.ndarray
    weights: np.ndarray


class CellRoom(NamedTuple):
    """Scratch arrays for the cells of families: the weight of their rows, that of held-out rows, and a few terms."""

    counts: np.ndarray
    held_out: np.ndarray
    few: np.ndarray


class BitRoom(NamedTuple):
    """Scratch arrays for cells in a block of words: their rows, (cells, words), and how many there are, (cells,)."""

    rows: np.ndarray
    inside: np.ndarray


class SubsetRoom(NamedTuple):
    """Scratch arrays for going through the subsets of columns depth first.

    places          the number of each occupied cell of the last division
    groups          (columns + 1, rows): the group of each row at each depth
    found, chosen   (columns + 1,): how many groups there are, and the column that was added
    """

    places: np.ndarray
    groups: np.ndarray
    found: np.ndarray
    chosen: np.ndarray


class FamilyColumns(NamedTuple):
    """A child and what it is counted with: groups of rows (the joint states of its parents), and a column or NONE."""

    codes: np.ndarray
    child: np.uint64
    states: np.uint64
    group: np.ndarray
    column: np.uint64
    size: np.uint64
