"""The warning of more hidden states than rows to learn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.exceptions import FgrnWarning, Remedy, counted, warn
from ..learning.cross_validation import LEAST_ROWS

if TYPE_CHECKING:
    from ._base import LatentEstimator


def warn_of_many_states(model: LatentEstimator, rows: int) -> None:
    """Warn, before they are learnt, of more hidden states than the number of rows."""
    asked, given = model._states_asked(), getattr(model, "n_hidden", None)
    if asked <= rows:
        return
    chosen = any(getattr(one, "options", ()) == {"auto"} for one in model._parameter_constraints["n_hidden"])
    fewer = max(1, rows // LEAST_ROWS) if isinstance(given, int) else ...
    warn(
        f"asks for {asked:,} hidden states, more than the {counted(rows, 'row')} can tell apart: some will be empty or "
        "equal, and each makes learning longer.",
        FgrnWarning,
        setting="n_hidden",
        value=given,
        remedies=(
            Remedy(f"take one for every {LEAST_ROWS} rows at most", n_hidden=fewer),
            Remedy("let a criterion choose", n_hidden="auto") if chosen else "",
        ),
    )
