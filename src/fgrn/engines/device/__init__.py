"""The torch engine: trees of blocks as batched products by depth and shape, on a GPU or any other device of PyTorch."""
