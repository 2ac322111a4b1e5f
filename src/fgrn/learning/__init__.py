"""Learning: preparation of rows, execution, checkpoints, layers, criteria for model size, computing clusters."""
