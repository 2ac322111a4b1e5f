"""Measurements of fgrn beside its peers. `make bench` runs them all; `python -m benchmarks --help` says more.

Every figure is a ratio of two times measured in one run on one machine, after both sides were shown to compute the
same. Nothing here is a test: times are compared with goals and reported, met or not.
"""
