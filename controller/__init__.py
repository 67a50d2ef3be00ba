"""Live time around the scheduler: facts come in by gRPC, orders go out by gRPC, a journal between.

    servicer -> live -> driver -> scheduler        calls and streams in, events to the scheduler
                live <- shell  <- commands         effects out

servicer          the gRPC service, and nothing else
live              wires the rest together, and performs the shell's effects
driver            one inbox, one alarm, one journal around `esg.core.scheduler`
shell             what is remembered besides the scheduler, and the effects of each event
effects           what the shell wants done, as plain values
request_log       requests under way and answered, within bounds
counters          how each application has fared
gateway_streams   the door for gateways: submissions in, answers out
followers         which gateways hear of which requests
invoker_streams   the door for invokers: who is attached, which orders go where
corrector         corrections of profiles, brought into force
journal           the directory of segments that all is written to
dead_letters      events that the scheduler failed at, put aside
recovery          starting again: snapshot, replay
status            the mesh at one moment, for people
metrics           the same in numbers, for Prometheus
convert           the scheduler's words as protobuf
"""
