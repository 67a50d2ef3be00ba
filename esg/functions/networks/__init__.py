"""What the functions' CPU models are made of. It runs inside Triton, in the models' environment.

There, this package is found under its own name, `networks`: it needs numpy and ncnn, and nothing
else of this project.
"""
