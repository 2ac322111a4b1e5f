"""The one place that imports PyTorch: devices, precisions, and a clear word where they cannot be had."""

from __future__ import annotations

from typing import NamedTuple

from ...core.exceptions import FgrnError

try:
    import torch
except ImportError as error:
    raise FgrnError(
        "engine='torch' needs PyTorch, which is not installed. Install it with: pip install 'fgrn[torch]'."
    ) from error

__all__ = ["Precision", "device_of", "precision_of", "torch"]


class Precision(NamedTuple):
    """How numbers are kept and multiplied.

    stored   the type of messages
    summed   the type of tables, sums and logarithms
    faint    the smallest product of two messages, each with a largest entry of 1, that is trusted: states that were
             lost to underflow may matter in a smaller one, and the row is left to the reference engine
    """

    stored: torch.dtype
    summed: torch.dtype
    faint: float


PRECISIONS = {
    "float64": Precision(torch.float64, torch.float64, 1e-250),
    "float32": Precision(torch.float32, torch.float32, 1e-25),
    "bfloat16": Precision(torch.bfloat16, torch.float32, 1e-25),
}


def precision_of(name: str | None, device: torch.device) -> Precision:
    """The precision of that name; None for "float32" on a GPU and "float64" elsewhere."""
    name = ("float32" if device.type == "cuda" else "float64") if name is None else name
    if name not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise FgrnError(f"The 'precision' must be one of {known}. Got {name!r} instead.")
    return PRECISIONS[name]


def device_of(name: str | None) -> torch.device:
    """The device of that name; None for a GPU if there is one, else the processor."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise FgrnError(f"There is no device {name!r}. Use 'cuda' or 'cpu'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise FgrnError(
            f"device={name!r} needs a GPU that PyTorch {torch.__version__} can use, and it finds none. "
            "Check the driver with nvidia-smi, or use device='cpu'."
        )
    return device
