"""Arrays as tensors of the inference protocol, and their raw encoding."""
