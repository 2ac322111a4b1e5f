"""Prints pip constraints that pin every dependency in pyproject.toml to its lower bound there."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest(requirements: list[str]) -> Iterator[str]:
    """`name==version` of each requirement that applies to this Python, those of our own extras included."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        if requirement.name == PROJECT["name"]:
            for extra in sorted(requirement.extras):
                yield from lowest(PROJECT["optional-dependencies"][extra])
            continue
        bounds = [bound.version for bound in requirement.specifier if bound.operator == ">="]
        if len(bounds) != 1:
            sys.exit(f"{requirement.name} has no lower bound in pyproject.toml: which version is it tested with?")
        yield f"{requirement.name}=={bounds[0]}"


if __name__ == "__main__":
    print("\n".join(lowest([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]])))
