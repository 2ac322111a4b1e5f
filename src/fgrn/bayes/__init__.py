"""Any discrete model by its tables: Bayesian and Markov networks, their junction trees, trees found in data."""
