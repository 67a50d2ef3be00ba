"""Live time around the scheduler: facts come in by gRPC, orders go out by gRPC, a journal between.

driver       one inbox, one alarm, one journal around `esg.Scheduler`
journal      the directory of segments that it is written to
recovery     starting again: snapshot, replay
memory       what the shell remembers besides the scheduler
invokers     the door for invokers: who is attached, who is lost, which orders go where
requests     what is remembered of each request, and who wants to know about it
gateways     the door for gateways: submissions in, answers out
drift        corrections of profiles, brought into force
tally        how each application has fared
status       the mesh at one moment, for people
metrics      the same in numbers, for Prometheus
convert      the scheduler's words as protobuf
service      the gRPC service made of these
"""
