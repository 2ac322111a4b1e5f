"""How a network learns: rows to the learning loop and back, checkpoints, layers, choice of size, other machines."""
