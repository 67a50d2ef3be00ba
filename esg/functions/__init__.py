"""The functions: each a folder with a manifest, a CPU part and a Triton model for each device.

    functions/segmentation/
        function.toml           what it is
        handler.py              the CPU part: decoding and preparing, finishing and encoding
        models/cpu/             a Triton model directory for CPU slices
        models/gpu/             one for MIG slices; export.py writes the network into it
        export.py

The modules beside the folders are what several of them share: `pictures` and `findings` for
handlers, `networks` for CPU models, `weights` to get trained weights for those, `exporting` for the
export scripts. docs/functions.md shows how to write a function of one's own.

photo.jpg, for tests and demonstrations, is Commodore Grace M. Hopper in 1984, by James S. Davis: an
official photograph of the U.S. Navy, and so in the public domain; here it is reduced in size.
"""
