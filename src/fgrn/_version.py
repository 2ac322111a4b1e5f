"""The version of the package, in one place, from which the build reads it."""

__version__ = "0.1.0"
