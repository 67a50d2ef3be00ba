"""Data between the stages of a request: where it is kept, how it gets elsewhere, when it goes.

    local     files of one node, in memory; written under another name first, mapped when read
    remote    Redis, for what another node reads: payloads, published outputs, results
    node      the choice between the two, by locality
    pipeline  many coroutines' commands to Redis in one round trip
    durable   the same, until the server has it on disk
    patience  waiting for a Redis that is away
    names     under what name a payload is stored
    embedded  a private Redis for a mesh on one machine

An output is kept where it was made, because its consumer is mostly placed there too. Only when it
is not does the scheduler have it copied to Redis. Everything is kept under its request's name and
goes with it; what a crash leaves behind expires in Redis, and on disk goes when the node starts.
"""
