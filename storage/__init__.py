"""Data between the stages of a request: where it is kept, how it gets elsewhere, when it goes.

An output is kept where it was made, because its consumer is mostly placed there too. Only when it
is not does the scheduler have it copied to Redis. Everything is kept under its request's name and
goes with it; what a crash leaves behind expires in Redis, and on disk goes when the node starts.
"""
