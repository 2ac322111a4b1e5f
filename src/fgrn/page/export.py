"""A model in the form of a page: names and positions as JSON, and the Plan, its Programs and tables as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..bayes.bayesian import BayesianNetwork
from ..bayes.factored import FactoredModel
from ..bayes.tree_mixture import TreeMixture
from ..core.exceptions import FgrnError, Remedy
from ..core.variable import Variable
from ..graph.chain import Chain
from ..graph.network import Network
from ..plan.block_kinds import Message
from ..plan.plan import Plan
from ..plan.schedule import Programs
from .card_layout import CARD, graph_view, shown_variables, states_as_json
from .estimator_view import RefinedClass, estimator_text, fitted_network, refined_class
from .factor_layout import factor_view
from .plan_serialisation import Packed, pack_orders, pack_plan, pack_program, pack_refined

FORMAT = 3
"""Of the data in a page, see `web/src/protocol.ts`; format 1 has no `refined`, and format 2 no `weight` in it.
The script reads all of them."""

SERVED = Remedy(
    "use {} to see the same page, while Python infers", "the server of the command `fgrn explore`", serve=True
)
"""What to do with a model that is too large for a page."""

MOST_VARIABLES = 1000
"""Cards of a page."""

MOST_EXPLAINED = 128
"""Known values of which a page says what each adds to the log-odds of a state."""

MOST_JOINT_STATES = 2**24
"""Joint states of all Diverters: the browser visits each a few times after every click, a few seconds in all."""


@dataclass(frozen=True)
class Shown:
    """A model as a page shows it: its kind, the variables with cards, and the Network that infers."""

    kind: str
    model: FactoredModel | Network
    network: Network
    cards: tuple[Variable, ...]
    columns: Mapping[str, Any]  # of an estimator: its class and its columns
    refined: RefinedClass | None = None  # what is asked for the class instead of the network, as `predict_proba` does


MOST_SENT = 5_000_000
"""Bytes of the arrays that a page whose model stays in Python is sent, to show its factor graph."""


def document(model: Any, title: str, source: str) -> tuple[dict[str, Any], bytes]:
    """Return the document of a page about a model, and the arrays for inference.

    Args:
        model: a BayesianNetwork, MarkovNetwork, Network, or fitted estimator.
        title: of the page.
        source: the file of the model, for the command line that the page writes; "" if it is not known.
    """
    shown = shown_model(model)
    network = shown.network
    plan = network._plan(())
    _check_size(plan)
    numbers = {variable.name: plan.edge(variable.name) for variable in shown.cards}
    packed = Packed()
    pack_plan(packed, plan, network._parameters.values)
    factor = factor_view(network, plan, numbers)
    programs = Programs(plan, range(plan.edges))  # evidence may be on any edge, and soft
    text = _page_text(shown, numbers, title, source)
    if not plan.is_tree:
        pack_program(packed, "round", programs.round)
        text["loops"] = True
    else:
        wanted = {Message(edge, way) for edge in numbers.values() for way in (True, False)}
        pack_program(packed, "beliefs", programs.some(wanted))
        pack_program(packed, "inward", programs.inward)
        pack_orders(packed, min(len(numbers), MOST_EXPLAINED))
        if factor is not None:
            pack_program(packed, "everything", programs.everything)
        if shown.refined is not None:
            own = numbers[shown.refined.name]
            pack_program(packed, "refined", programs.some({Message(own, True), Message(own, False)}))
            pack_refined(packed, shown.refined.networks)
    scale = float(network._wiring.log_scale)
    return {**text, "logScale": scale, "arrays": packed.places, "factor": factor}, packed.bytes()


def served_document(model: Any, title: str, source: str) -> tuple[dict[str, Any], bytes]:
    """Return the document of a page whose model stays in Python, and the arrays of its factor graph, if small."""
    shown = shown_model(model)
    network = shown.network
    plan = network._plan(())
    numbers = {variable.name: plan.edge(variable.name) for variable in shown.cards}
    text = {**_page_text(shown, numbers, title, source), "served": True, "loops": not plan.is_tree, "logScale": 0.0}
    packed = Packed()
    factor = factor_view(network, plan, numbers)
    if factor is not None:
        pack_plan(packed, plan, network._parameters.values)
        if plan.is_tree:
            pack_program(packed, "everything", Programs(plan, range(plan.edges)).everything)
    if factor is None or packed.size > MOST_SENT:
        return {**text, "arrays": {}, "factor": None}, b""
    return {**text, "arrays": packed.places, "factor": factor}, packed.bytes()


def _page_text(shown: Shown, numbers: Mapping[str, int], title: str, source: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "title": title,
        "kind": shown.kind,
        "source": source,
        "variables": [_variable(variable, numbers[variable.name], shown.model) for variable in shown.cards],
        "card": CARD,
        "graph": graph_view(shown.model, numbers),
        "continuous": list(shown.network._continuous),
        **shown.columns,
        "refined": _refined(shown, numbers),
    }


def _refined(shown: Shown, numbers: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the edge of the class that refined networks predict, how many there are, and how much they count."""
    if shown.refined is None:
        return None
    weight = shown.refined.pool.weight
    text = {"edge": numbers[shown.refined.name], "networks": len(shown.refined.networks)}
    return text if weight is None else {**text, "weight": asdict(weight)}


def _variable(variable: Variable, edge: int, model: Any) -> dict[str, Any]:
    """Return the record of a variable in the document of a page."""
    hidden = isinstance(model, Network) and variable.name not in model.observed
    return {
        "edge": edge,
        "name": variable.name,
        "states": states_as_json(variable),
        **({"hidden": True} if hidden else {}),
    }


def shown_model(model: Any) -> Shown:
    """Return a model in the form that a page shows; an error if it cannot be shown."""
    if isinstance(model, FactoredModel):
        kind = "bayesian" if isinstance(model, BayesianNetwork) else "markov"
        return _check_cards(Shown(kind, model, model._tree_network(), model.variables, {}))
    model = model.as_network() if isinstance(model, TreeMixture) else model
    found = fitted_network(model) if hasattr(model, "network_") else model
    if isinstance(found, Chain):
        raise FgrnError(
            "A page shows one row, and a Chain has a variable for every row of a sequence. Unroll it: "
            "fgrn.hmm(..., length=5)."
        )
    if hasattr(model, "mixture_"):
        raise FgrnError(
            "A page shows one network, and this model is a mixture of trees that share tables.",
            remedies=(
                Remedy("explore {}, the tree they have in common", "its `network_`", network_=...),
                Remedy("fit it", share_tables=False),
            ),
        )
    if not isinstance(found, Network):
        what = f"Got {type(model).__name__}"
        if hasattr(model, "fit"):
            what += ", which is not fitted: call fit first"
        raise FgrnError(f"A page shows a BayesianNetwork, a MarkovNetwork, a Network or a fitted estimator. {what}.")
    cards = tuple(shown_variables(found))
    if found is model:
        return _check_cards(Shown("network", found, found, cards, {}))
    return _check_cards(Shown("estimator", found, found, cards, estimator_text(model), refined_class(model)))


def _check_cards(shown: Shown) -> Shown:
    if len(shown.cards) > MOST_VARIABLES:
        raise FgrnError(f"A page shows up to {MOST_VARIABLES:,} variables. This model has {len(shown.cards):,}.")
    return shown


def _check_size(plan: Plan) -> None:
    states = int(plan.diverter_size.sum())
    if states > MOST_JOINT_STATES:
        raise FgrnError(
            f"Exact inference in this model visits {states:,} joint states, too many for a browser "
            f"({MOST_JOINT_STATES:,} at most).",
            remedies=SERVED,
        )
