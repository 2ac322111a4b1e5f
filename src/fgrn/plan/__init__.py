"""What an engine runs: a network compiled into frozen, read-only index arrays and the order of its steps."""
