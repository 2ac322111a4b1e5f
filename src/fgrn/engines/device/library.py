"""The only module that imports PyTorch: devices, precisions, and clear errors if they are not available."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...core.exceptions import FgrnError, FgrnWarning

try:
    import torch
except ImportError as error:
    raise FgrnError(
        "engine='torch' needs PyTorch, which is not installed. Install it with: pip install 'fgrn[torch]'."
    ) from error
except Exception as error:  # a library of the system that it needs, or one that does not fit
    raise FgrnError(
        f"PyTorch is installed and cannot be imported: {error}. Install it again, or use engine='cpu'."
    ) from error

__all__ = ["DEVICES", "PRECISIONS", "Precision", "checked_version", "device_of", "precision_of", "products", "torch"]

OLDEST, NEWEST = (2, 6), (2, 15)
"""The versions of PyTorch that the engine was tested with."""

DEVICES = ("cuda", "cpu")


class Precision(NamedTuple):
    """The number types in which messages are stored and multiplied.

    name     as it is asked for
    stored   the type of messages
    summed   the type of tables, sums within a block of rows, and logarithms; sums over blocks are float64
    faint    the smallest product of two messages, each with a largest entry of 1, that is trusted: states that were
             lost to underflow may matter in a smaller one, and the row is left to the reference engine
    """

    name: str
    stored: torch.dtype
    summed: torch.dtype
    faint: float

    @property
    def bytes_stored(self) -> int:
        """Return the memory of one number of a message, in bytes."""
        return int(self.stored.itemsize)


PRECISIONS = {
    one.name: one
    for one in (
        Precision("float64", torch.float64, torch.float64, 1e-250),
        Precision("float32", torch.float32, torch.float32, 1e-25),
        Precision("tf32", torch.float32, torch.float32, 1e-25),
        Precision("bfloat16", torch.bfloat16, torch.float32, 1e-25),
    )
}


def precision_of(name: str | None, device: torch.device) -> Precision:
    """Return the precision with this name; for None, "float32" on a GPU and "float64" elsewhere."""
    name = ("float32" if device.type == "cuda" else "float64") if name is None else name
    if name not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise FgrnError(f"The 'precision' must be one of {known}. Got {name!r} instead.")
    return PRECISIONS[name]


def device_of(name: str | None) -> torch.device:
    """Return the device with this name; for None, a GPU if there is one, else the processor."""
    checked_version(torch.__version__)
    if name is None:
        return torch.device("cuda" if has_gpu() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise FgrnError(f"There is no device {name!r}. Use 'cuda' or 'cpu'.") from error
    if device.type not in DEVICES:
        raise FgrnError(f"The device {name!r} is not supported. Use 'cuda' or 'cpu'.")
    if device.type == "cpu":
        return device
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = torch.cuda.is_available()
        count = torch.cuda.device_count() if found else 0
    if not found:
        why = f" It says: {str(told[0].message).split(' (Triggered')[0].rstrip('.')}." if told else ""
        raise FgrnError(
            f"device={name!r} needs a GPU that PyTorch {torch.__version__} can use, and it finds none.{why} "
            "Check the driver with nvidia-smi, or use device='cpu'."
        )
    if device.index is not None and device.index >= count:
        raise FgrnError(f"There is no device {name!r}: PyTorch finds {count} of them, from 'cuda:0' on.")
    return device


def has_gpu() -> bool:
    """Return whether PyTorch can use a GPU, without an error if it cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(torch.cuda.is_available())


def checked_version(version: str) -> None:
    """Raise an error for a version of PyTorch that is too old, and warn of untested versions."""
    found = re.match(r"(\d+)\.(\d+)", version)
    number = (int(found[1]), int(found[2])) if found else NEWEST
    if number < OLDEST:
        raise FgrnError(
            f"engine='torch' needs PyTorch {OLDEST[0]}.{OLDEST[1]} or later. This is {version}: "
            "pip install --upgrade torch, or use engine='cpu'."
        )
    if number > NEWEST:
        warnings.warn(
            f"engine='torch' was not tested with PyTorch {version}, only up to {NEWEST[0]}.{NEWEST[1]}.",
            FgrnWarning,
            stacklevel=2,
        )


@contextmanager
def products(precision: Precision) -> Iterator[None]:
    """A context that sets the precision of float32 matrix products on a GPU, and restores the old one."""
    matmul, wanted = torch.backends.cuda.matmul, precision.name == "tf32"
    if hasattr(matmul, "fp32_precision"):
        before = matmul.fp32_precision
        matmul.fp32_precision = "tf32" if wanted else "ieee"
        try:
            yield
        finally:
            matmul.fp32_precision = before
        return
    allowed = matmul.allow_tf32
    matmul.allow_tf32 = wanted
    try:
        yield
    finally:
        matmul.allow_tf32 = allowed
