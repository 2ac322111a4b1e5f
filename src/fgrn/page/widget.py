"""A page as a notebook widget, by anywidget: evidence and beliefs can be read and set in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.exceptions import FgrnError, unknown_name
from ..core.variable import Variable

SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = "width: 100%; height: 640px; border: 1px solid #9aa4b1; border-radius: 8px";
  const tell = () => frame.contentWindow?.postMessage({ kind: "fgrn-given", given: model.get("_given") }, "*");
  const told = (event) => {
    if (event.source !== frame.contentWindow) return;
    if (event.data?.kind === "fgrn-ready") tell();
    if (event.data?.kind !== "fgrn-believed") return;
    model.set({ _given: event.data.given, _beliefs: event.data.beliefs, _log_likelihood: event.data.logLikelihood });
    model.save_changes();
  };
  addEventListener("message", told);
  model.on("change:_given", tell);
  frame.srcdoc = model.get("_html");
  el.append(frame);
  return () => removeEventListener("message", told);
}
export default { render };
"""
"""Puts the page into a frame, and carries evidence and beliefs between it and Python."""


def widget_of(html: str, variables: Sequence[Variable]) -> Any:
    """Return the widget of a page: `evidence` can be set and read, `beliefs` and `log_likelihood` read, by name."""
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise FgrnError(f"A widget needs {error.name}: pip install 'fgrn[notebook]'.") from error

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc]  # is not typed
        """A page in a notebook. `evidence`: a label or weights by variable; `beliefs`: probabilities by label."""

        _esm = SCRIPT
        _html = traitlets.Unicode(html).tag(sync=True)
        _given = traitlets.List().tag(sync=True)
        _beliefs = traitlets.List().tag(sync=True)
        _log_likelihood = traitlets.Float(None, allow_none=True).tag(sync=True)

        @property
        def evidence(self) -> dict[str, Any]:
            """The evidence: the label of an observed state, or a weight for each state, by variable."""
            return {
                variables[number].name: _label_or_weights(variables[number], weights) for number, weights in self._given
            }

        @evidence.setter
        def evidence(self, known: Mapping[str, Any]) -> None:
            self._given = given_of(variables, known)

        @property
        def beliefs(self) -> dict[str, dict[Any, float]]:
            """The probability of each state, by variable and label; empty before the page is shown."""
            pairs = zip(variables, self._beliefs, strict=False)
            return {variable.name: dict(zip(variable.labels, belief, strict=True)) for variable, belief in pairs}

        @property
        def log_likelihood(self) -> float | None:
            """The natural logarithm of the probability of the evidence; None for impossible evidence."""
            found: float | None = self._log_likelihood
            return found

    return Explorer()


def given_of(variables: Sequence[Variable], known: Mapping[str, Any]) -> list[list[Any]]:
    """Return evidence by name in the form of the page: pairs of a variable's number and weights of its states."""
    numbers = {variable.name: number for number, variable in enumerate(variables)}
    given = []
    for name, value in known.items():
        if name not in numbers:
            raise unknown_name("variable", name, numbers)
        variable = variables[numbers[name]]
        if value is None:
            continue
        if isinstance(value, (list, tuple, np.ndarray)):
            weights = [float(weight) for weight in value]
            if len(weights) != variable.cardinality or not all(0 <= weight < np.inf for weight in weights):
                raise FgrnError(
                    f"{name!r} has {variable.cardinality} states, with a weight from 0 on each. Got {value!r}."
                )
        else:
            weights = np.eye(variable.cardinality)[variable.code(value)].tolist()
        given.append([numbers[name], weights])
    return given


def _label_or_weights(variable: Variable, weights: Sequence[float]) -> Any:
    states = [label for label, weight in zip(variable.labels, weights, strict=True) if weight]
    return states[0] if len(states) == 1 else list(weights)
