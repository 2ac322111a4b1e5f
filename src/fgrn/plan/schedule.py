"""Programs: the order of the steps that compute messages, for each purpose, made from a Plan alone.

On a tree two sweeps compute every message once: towards a root and back. In parallel rounds every block computes its
messages from those of the round before, which also works on graphs with loops.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..core.arrays import frozen
from .block_kinds import BLOCK_KINDS, DIVERT, FORWARD, Message, Step
from .plan import Plan, Program

MOST_PROGRAMS = 64
"""The most programs for selected messages that are cached."""


class Programs:
    """The programs of one Plan, each made when it is first used.

    `special` are the edges whose evidence is not a column of a table: see `special_edges`.
    """

    def __init__(self, plan: Plan, special: Collection[int] = ()) -> None:
        self._plan = plan
        self._special = frozenset(special)
        self._some: dict[frozenset[Message], Program] = {}
        self._named: dict[tuple[str, ...], Program] = {}
        self._believed: dict[frozenset[int], Program] = {}

    @cached_property
    def everything(self) -> Program:
        """Two sweeps that compute every message."""
        return sweeps(self._plan, self._plan.all_messages(), self._special)

    @cached_property
    def counting(self) -> Program:
        """Two sweeps that compute what the expected counts need when leaves are gathered.

        A gathered leaf and a Source on a Diverter are counted from the Diverter's posterior, for which the
        message on the way from the root is enough; every other SISO needs the messages at its two ends.
        """
        if is_junction_tree(self._plan):
            return replace(sweeps(self._plan, (), self._special, for_counts=True), by_posteriors=True)
        return sweeps(self._plan, counting_messages(self._plan, self._special), self._special, for_counts=True)

    @cached_property
    def inward(self) -> Program:
        """One sweep towards the roots that computes every message on the way."""
        return sweeps(self._plan, (), self._special, gather=False)

    @cached_property
    def round(self) -> Program:
        """One parallel round."""
        return all_at_once(self._plan)

    def some(self, wanted: Collection[Message]) -> Program:
        """Return two sweeps that compute at least the wanted messages."""
        key = frozenset(wanted)
        if key not in self._some:
            if len(self._some) >= MOST_PROGRAMS:
                self._some.clear()
            self._some[key] = sweeps(self._plan, key, self._special)
        return self._some[key]

    def messages_on(self, names: tuple[str, ...]) -> Program:
        """Return two sweeps that compute at least both messages of the named variables."""
        if names not in self._named:
            if len(self._named) >= MOST_PROGRAMS:
                self._named.clear()
            self._named[names] = self.some(self._plan.messages_of(names))
        return self._named[names]

    def ungathered(self, edges: Collection[int], whole: bool) -> Program:
        """Return two sweeps for both messages of some edges (`whole`), or the backward ones only, without gathering."""
        ways = (True, False) if whole else (False,)
        wanted = [Message(edge, way) for edge in edges for way in ways]
        return sweeps(self._plan, wanted, self._special, gather=False)

    def marginals(self, edges: Collection[int], whole: bool = False) -> Program:
        """Return two sweeps that compute at least the marginals of these edges; `whole`: of all edges at Diverters.

        If all of them end at a Diverter, as the variables of a junction tree do, their messages are not computed.
        """
        key = frozenset(edges)
        if whole and not self._plan.reader[list(key)].any():
            key = frozenset(np.flatnonzero(~self._plan.reader).tolist())
        plain = self.some({Message(edge, way) for edge in key for way in (True, False)})
        if not key or not is_junction_tree(self._plan) or self._plan.reader[list(key)].any():
            return plain
        if key not in self._believed:
            if len(self._believed) >= MOST_PROGRAMS:
                self._believed.clear()
            self._believed[key] = believing(self._plan, key, self._special, plain)
        return self._believed[key]


def is_junction_tree(plan: Plan) -> bool:
    """Return whether the plan is a junction tree: only factors, Diverters (cliques), and their variables."""
    if not plan.is_tree or len(plan.siso_table) or not plan.is_factor.all() or not plan.diverters:
        return False
    reader = dict(
        zip(plan.leg_edge[plan.leg_is_input].tolist(), _owners(plan)[plan.leg_is_input].tolist(), strict=True)
    )
    return all(parent < 0 or reader.get(parent) == block for kind, block, parent in plan.order if kind == DIVERT)


def _owners(plan: Plan) -> np.ndarray:
    """Return the number of the Diverter of every leg."""
    return np.repeat(np.arange(plan.diverters), np.diff(plan.leg_start))


def believing(plan: Plan, edges: frozenset[int], special: Collection[int], plain: Program) -> Program:
    """Return a program of one sweep towards the root, then posteriors of the Diverters that lead to these edges."""
    needed: set[int] = set()
    onwards: set[int] = set()  # edges that lead to one of them
    for kind, block, parent in reversed(plan.order):
        if kind == DIVERT:
            ends = plan.leg_edge[plan.legs(block)].tolist()
            if parent < 0 or not edges.isdisjoint(ends) or not onwards.isdisjoint(ends):
                needed.add(block)
                onwards.add(parent)
    program = sweeps(plan, (), special, for_counts=True)
    return replace(
        program, shown=plain.shown, believed=frozen(sorted(edges)), for_counts=False, by_posteriors=True,
        needed=frozenset(needed), plain=plain,
    )  # fmt: skip


def special_edges(plan: Plan, slot: np.ndarray, soft: Collection[int]) -> frozenset[int]:
    """Return the edges whose evidence is not the value of a leaf: soft, or on an edge that some block reads.

    An edge has evidence where its `slot` is not negative.
    """
    return frozenset(soft).union(((slot >= 0) & plan.reader).nonzero()[0].tolist())


def _plain_leaf(plan: Plan, siso: int, special: Collection[int]) -> bool:
    return int(plan.siso_output[siso]) not in special and int(plan.siso_input[siso]) not in special


def counting_messages(plan: Plan, special: Collection[int]) -> set[Message]:
    """Return the messages needed for expected counts when the values of plain leaves are gathered from tables."""
    wanted: set[Message] = set()
    on_diverter = {int(edge) for edge in plan.leg_edge}
    leaves = {int(siso) for siso in plan.leg_siso if siso >= 0}
    for siso, output in enumerate(plan.siso_output):
        if siso not in leaves or not _plain_leaf(plan, siso, special):
            wanted |= {Message(int(plan.siso_input[siso]), True), Message(int(output), False)}
    for edge in plan.source_edge:
        if int(edge) not in on_diverter:
            wanted.add(Message(int(edge), False))
    for kind, _, parent in plan.order:
        if kind == DIVERT and parent >= 0:
            wanted |= {Message(parent, True), Message(parent, False)}
    return wanted


def sweeps(
    plan: Plan,
    wanted: Collection[Message],
    special: Collection[int] = (),
    for_counts: bool = False,
    gather: bool = True,
) -> Program:
    """Return the two sweeps of a tree: all messages inwards, for the likelihood, and outwards only those needed.

    The backward message of a plain leaf SISO is a column of its table, which is gathered when the Diverter computes its
    product, unless a message of that leaf is wanted.
    """
    wanted = set(wanted)
    gathered = _gathered(plan, wanted, special) if gather else np.full(len(plan.leg_edge), -1)
    skipped = {int(siso) for siso in gathered if siso >= 0}
    inward: list[Message] = []
    steps: list[Step] = []
    for kind, block, parent in reversed(plan.order):
        if parent >= 0 and not (kind == FORWARD and block in skipped):
            inward.append(_out_of(plan, kind, block, parent))
            steps += BLOCK_KINDS[kind].steps(plan, block, inward[-1:])
    root_blocks = [plan.order[position][:2] for position in plan.root]
    if for_counts:  # the norm of a Diverter's posterior is the likelihood
        root_blocks = [(kind, block) for kind, block in root_blocks if kind != DIVERT]
    roots = [BLOCK_KINDS[kind].outgoing(plan, block)[0] for kind, block in root_blocks]
    needed = wanted.union(roots)
    outward: list[Step] = []
    for kind, block, parent in reversed(plan.order):
        targets = [m for m in BLOCK_KINDS[kind].outgoing(plan, block) if m.edge != parent and m in needed]
        if targets:
            outward += reversed(BLOCK_KINDS[kind].steps(plan, block, targets))
            if parent >= 0:
                needed.add(_into(plan, kind, block, parent))
    return _program(plan, [*steps, *reversed(outward)], gathered, wanted, inward, roots, for_counts)


def all_at_once(plan: Plan) -> Program:
    """Return one parallel round, in which every block computes all its outgoing messages."""
    steps: list[Step] = []
    for kind in BLOCK_KINDS.values():
        for block in range(kind.count(plan)):
            steps += kind.steps(plan, block, kind.outgoing(plan, block))
    return _program(plan, steps, np.full(len(plan.leg_edge), -1), plan.all_messages(), [], [])


def _gathered(plan: Plan, wanted: set[Message], special: Collection[int]) -> np.ndarray:
    gathered = np.full(len(plan.leg_edge), -1)
    seen = {message.edge for message in wanted}
    for leg, siso in enumerate(plan.leg_siso.tolist()):
        if siso >= 0 and seen.isdisjoint({int(plan.leg_edge[leg]), int(plan.siso_output[siso])}):
            gathered[leg] = siso if _plain_leaf(plan, siso, special) else -1
    return gathered


def _out_of(plan: Plan, kind: int, block: int, edge: int) -> Message:
    return next(message for message in BLOCK_KINDS[kind].outgoing(plan, block) if message.edge == edge)


def _into(plan: Plan, kind: int, block: int, edge: int) -> Message:
    return Message(edge, not _out_of(plan, kind, block, edge).is_forward)


def _program(
    plan: Plan,
    steps: list[Step],
    gathered: np.ndarray,
    wanted: set[Message],
    inward: list[Message],
    roots: list[Message],
    for_counts: bool = False,
) -> Program:
    table = np.zeros((len(steps), 4), dtype=np.int64)
    targets: list[int] = []
    for position, (kind, block, legs) in enumerate(steps):
        table[position] = kind, block, len(targets), len(targets) + len(legs)
        targets.extend(legs)
    hidden = {int(plan.siso_output[siso]) for siso in gathered if siso >= 0}
    boundary = [e for e in np.flatnonzero(~plan.reader) if e not in hidden or Message(int(e), False) in wanted]
    return Program(
        steps=frozen(table),
        targets=frozen(targets),
        gathered=frozen(gathered),
        is_gathered=frozen(np.isin(np.arange(len(plan.siso_table)), gathered), bool),
        boundary=frozen(boundary),
        shown=frozen(e for e in range(plan.edges) if Message(e, True) in wanted and Message(e, False) in wanted),
        inward=frozen(np.array(inward, dtype=np.int64).reshape(-1, 2)),
        roots=frozen(np.array(roots, dtype=np.int64).reshape(-1, 2)),
        for_counts=for_counts,
    )
