"""Learning on a cluster (Dask): rows stay on the workers, expected counts are sent back."""
