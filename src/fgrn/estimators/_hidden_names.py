"""Names of hidden variables and of the class in the network of an estimator, which differ from all columns."""

from __future__ import annotations

from ._tables import TableEstimator


class HiddenNames(TableEstimator):
    """Base class of estimators that names the variables of their networks that are no columns."""

    def _free(self, wanted: str, *others: str) -> str:
        """Return a name for a hidden variable that differs from all columns and from the others."""
        taken = {*self._names(), *others}
        while wanted in taken or any(name.startswith(f"{wanted}->") for name in taken):
            wanted += "_"
        return wanted

    def _hidden_name(self) -> str:
        """Return the name of the hidden variable, chosen to differ from all columns and the class."""
        return self._free("S", *self._class_names())

    def _hidden_prefix(self) -> str:
        """Return a prefix for numbered hidden variables with which no column or numbered class begins."""
        wanted = "S"
        while any(name.startswith(wanted) for name in self._names()) or any(
            name.startswith(wanted) and name[len(wanted) :][:1].isdecimal() for name in self._class_names()
        ):
            wanted += "_"
        return wanted

    def _class_names(self) -> list[str]:
        """Return a list with the name of the class in the network, empty if there is none."""
        return []

    def _class_name(self) -> str:
        return self._free("class")

    def _hidden(self) -> list[str]:
        return [self._hidden_name()]
