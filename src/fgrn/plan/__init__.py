"""Plans: networks compiled into frozen, read-only index arrays, with the order of the steps that engines run."""
