"""Learning on a computing cluster (Dask): rows stay on the workers, expected counts are sent back."""
