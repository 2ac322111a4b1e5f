"""The torch engine: networks as batched matrix products by depth and shape, on a GPU or another PyTorch device."""
