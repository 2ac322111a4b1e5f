"""Bayesian and Markov networks, their junction trees, and trees learnt from data."""
