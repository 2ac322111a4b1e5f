"""Defaults of learning that signatures show: with them here, classes that can learn are imported without the loop."""

from __future__ import annotations

EPOCHS_PER_CHECKPOINT = 5
"""The number of epochs between two checkpoints."""

ONLINE_POWER = 0.6
"""The power of the step by which online learning forgets old counts."""
