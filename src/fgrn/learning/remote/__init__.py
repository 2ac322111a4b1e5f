"""Learning on the workers of a cluster (Dask): rows stay there, Counts come back."""
