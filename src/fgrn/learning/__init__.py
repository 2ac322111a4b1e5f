"""Learning: preparation of rows, execution, checkpoints, layers, criteria for the size of models, clusters."""
