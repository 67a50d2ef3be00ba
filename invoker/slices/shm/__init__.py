"""Tensors that go to a slice through shared memory."""
