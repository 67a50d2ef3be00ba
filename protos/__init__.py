"""The wire: .proto sources and the code generated from them by `make protos`; never edit that."""
