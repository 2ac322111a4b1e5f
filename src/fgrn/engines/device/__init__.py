"""The torch engine: trees of blocks as batched products by depth and shape, on a GPU or any other device of PyTorch.

    clique_tree   from a Plan to cliques, links and leaves in levels: NumPy only
    layout        those of one shape and depth side by side, as tensors on the device
    sweeps        the two sweeps of a block of rows, and its expected counts
    engine        the engine: rows in blocks of one size, one hand-over per epoch, what is delegated
    library       the one place that imports torch
"""
