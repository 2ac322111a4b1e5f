"""The versions of numba that the kernels are tested with: they use internal parts of numba that may change.

These are the options `_nrt` and `forceinline`, the builders of LLVM's code in `llvm`, `vectors` and `blas`, the
libraries of LLVM's code in `linking`, and what `cache` takes from its dispatcher. `pyproject.toml` allows the same
versions.
"""

from __future__ import annotations

import re

from ...core.exceptions import FgrnWarning, warn

OLDEST, NEWEST = (0, 61), (0, 68)


def check_numba(version: str) -> None:
    """Warn if this version of numba is not among those that the kernels are tested with."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        return
    oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
    warn(
        f"The kernels of the CPU engine are tested with numba {oldest} to {newest}, and this is numba {version}: they "
        f'may fail to compile. Install a version between these, or use engine="reference", which needs no numba.',
        FgrnWarning,
    )
