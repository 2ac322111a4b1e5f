"""Model files, checkpoints, and network files of other programs."""
