"""A model as a page needs it: names and places as JSON, and the Plan, its Programs and tables as bytes."""

from __future__ import annotations

from typing import Any

from ..bayes.bayesian import BayesianNetwork
from ..bayes.factored import FactoredModel
from ..core.exceptions import FgrnError
from ..core.variable import Variable
from ..graph.chain import Chain
from ..graph.network import Network
from ..plan.plan import Message, Plan
from ..plan.schedule import Programs
from .arrays import Packed, pack_orders, pack_plan, pack_program
from .estimator_view import estimator_text
from .factor_layout import factor_view
from .layout import CARD, graph_view, shown_variables, states_of

FORMAT = 1
"""Of the data in a page; its script reads this one."""

MOST_VARIABLES = 1000
"""Cards of a page."""

MOST_EXPLAINED = 128
"""Known values of which a page says what each adds to the log-odds of a state."""

MOST_JOINT_STATES = 2**24
"""Joint states of all Diverters: the browser visits each a few times after every click, a few seconds in all."""


def document(model: Any, title: str, source: str) -> tuple[dict[str, Any], bytes]:
    """What a page says of a model, and the arrays it infers with.

    Args:
        model: a BayesianNetwork, MarkovNetwork, Network on a tree, or fitted estimator.
        title: of the page.
        source: the file of the model, for the command line that the page writes; "" if it is not known.
    """
    kind, shown_model, network = _realised(model)
    plan = network._plan(())
    _check_size(plan)
    cards = list(shown_model.variables) if isinstance(shown_model, FactoredModel) else shown_variables(network)
    if len(cards) > MOST_VARIABLES:
        raise FgrnError(f"A page shows up to {MOST_VARIABLES:,} variables. This model has {len(cards):,}.")
    numbers = {variable.name: plan.edge(variable.name) for variable in cards}
    packed = Packed()
    pack_plan(packed, plan, network._parameters.values)
    programs = Programs(plan, range(plan.edges))  # evidence may be on any edge, and soft
    wanted = {Message(edge, way) for edge in numbers.values() for way in (True, False)}
    pack_program(packed, "beliefs", programs.some(wanted))
    pack_program(packed, "inward", programs.inward)
    pack_orders(packed, min(len(cards), MOST_EXPLAINED))
    factor = factor_view(network, plan, numbers)
    if factor is not None:
        pack_program(packed, "everything", programs.everything)
    text: dict[str, Any] = {
        "format": FORMAT,
        "title": title,
        "kind": kind,
        "source": source,
        "logScale": float(network._wiring.log_scale),
        "arrays": packed.places,
        "variables": [_variable(variable, numbers[variable.name], shown_model) for variable in cards],
        "card": CARD,
        "graph": graph_view(shown_model, numbers),
        "factor": factor,
        **({} if kind != "estimator" else estimator_text(model)),
    }
    return text, packed.bytes()


def _variable(variable: Variable, edge: int, model: Any) -> dict[str, Any]:
    """What a page says of a variable."""
    hidden = isinstance(model, Network) and variable.name not in model.observed
    return {"edge": edge, "name": variable.name, "states": states_of(variable), **({"hidden": True} if hidden else {})}


def _realised(model: Any) -> tuple[str, FactoredModel | Network, Network]:
    """What kind of model it is, the model whose variables are shown, and the Network that infers."""
    if isinstance(model, FactoredModel):
        kind = "bayesian" if isinstance(model, BayesianNetwork) else "markov"
        return kind, model, model._tree_network()
    found = model if isinstance(model, Network) else getattr(model, "network_", None)
    if isinstance(found, Chain):
        raise FgrnError(
            "A page shows one row, and a Chain has a variable for every row of a sequence. Unroll it: "
            "fgrn.hmm(..., length=5)."
        )
    if not isinstance(found, Network):
        what = f"Got {type(model).__name__}"
        if hasattr(model, "fit"):
            what += ", which is not fitted: call fit first"
        raise FgrnError(f"A page shows a BayesianNetwork, a MarkovNetwork, a Network or a fitted estimator. {what}.")
    if not found.is_tree:
        raise FgrnError(
            "This network has loops, and a page infers on trees. Explore the BayesianNetwork it was made from: its "
            "junction tree is exact."
        )
    return ("network" if found is model else "estimator"), found, found


def _check_size(plan: Plan) -> None:
    states = int(plan.diverter_size.sum())
    if states > MOST_JOINT_STATES:
        raise FgrnError(
            f"Exact inference in this model visits {states:,} joint states, too many for a browser "
            f"({MOST_JOINT_STATES:,} at most). Ask it in Python, or with `fgrn query`."
        )
