"""The settings of the learning loop: epochs, starts, stopping, batches of rows and their step sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import settings
from ..core.exceptions import LearningError, Remedy

USUAL_EPOCHS = 20
"""The number of epochs unless it is given."""

STEPS = (0.55, 0.03)
"""The default first and last step of mini-batch EM."""


@dataclass(frozen=True)
class Rule:
    """The settings of the learning loop: T epochs of K cycles, stopping, random starts, acceleration.

    batch_size  rows between two updates of the tables, for mini-batch EM; None for all of them
    step        the first and the last step of mini-batch EM, see `fgrn.flow.minibatch`
    patience    epochs without a better likelihood of the held-out rows, after which learning ends; None for any number
    """

    epochs: int = USUAL_EPOCHS
    cycles: int = 1
    tolerance: float = 0.0
    cycle_tolerance: float = 1e-10
    starts: int = 1
    seed: int = 0
    accelerate: bool = False
    batch_size: int | None = None
    step: float | tuple[float, float] | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "cycles", "starts"):
            settings.whole(name, getattr(self, name), 1, LearningError)
        for name in ("tolerance", "cycle_tolerance"):
            settings.number(name, getattr(self, name), LearningError)
        settings.whole("seed", self.seed, 0, LearningError)
        settings.choice("accelerate", self.accelerate, (True, False), LearningError)
        for name in ("batch_size", "patience"):
            if getattr(self, name) is not None:
                settings.whole(name, getattr(self, name), 1, LearningError)
        if self.accelerate and self.cycles > 1:
            raise LearningError(
                "accelerate=True needs updates that never lower the objective, as one cycle per epoch makes them. "
                "Use cycles=1, or accelerate=False."
            )
        if self.batch_size is None:
            if self.step is not None:
                raise LearningError(
                    "is the part that a batch of rows has in the counts, and there are no batches.",
                    setting="step",
                    value=self.step,
                    remedies=(Remedy("give the rows of a batch", batch_size=...), "leave it out"),
                )
            return
        if self.cycles > 1 or self.accelerate:
            raise LearningError(
                "goes with one cycle for each batch and without extrapolation, since the objective of one batch is not "
                "that of the next. Use cycles=1 and accelerate=False, or leave out batch_size.",
                setting="batch_size",
                value=self.batch_size,
            )
        object.__setattr__(self, "step", _steps(STEPS if self.step is None else self.step))

    def step_at(self, update: int, updates: int) -> float:
        """Return the step size of one update of many: step sizes fall geometrically from the first to the last."""
        first, last = _steps(STEPS if self.step is None else self.step)
        return first if first == last or updates < 2 else float(first * (last / first) ** (update / (updates - 1)))


def _steps(step: Any) -> tuple[float, float]:
    """Return the first and the last step size, from one number or two."""
    ends = list(step) if isinstance(step, Sequence | np.ndarray) and not isinstance(step, str) else [step, step]
    for one in ends:
        settings.number("step", one, LearningError)
    if len(ends) != 2 or not all(0 < one <= 1 for one in ends):
        raise LearningError(
            f"is a number above 0 and up to 1, or the first and the last of them. Got {step!r} instead.",
            setting="step",
            value=step,
        )
    return float(ends[0]), float(ends[1])
