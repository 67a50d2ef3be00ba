"""Every setting of the live mesh, in one place. `docs/settings.md` is made from this file, and
`settings_file` reads what processes are given."""

from dataclasses import dataclass
from typing import Any

from esg.core.node_settings import KEEP_ALIVE_US
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.sessions.settings import SessionSettings
from esg.limits import MOST_INLINE_BYTES
from esg.runtime.rpc.addresses import GATEWAY_PORT, LOOPBACK, SERVICE_DOMAIN
from esg.runtime.rpc.batched_sender import LARGEST_GROUP
from esg.runtime.security.tokens import Quota
from esg.runtime.setting_fields import metrics_port_setting, port_setting, setting
from esg.units import US_PER_MS, US_PER_S, to_ms

DEFAULT_POLICY = "apex"
SESSIONS = SessionSettings()
_USUAL = SchedulerSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSettings:
    """What every process of a mesh knows."""

    catalog: str = setting(
        "", "the catalog's file, or the name of one that comes with ESG; empty: default"
    )
    time_scale: float = setting(
        1.0,
        "multiplies every profiled time and SLO of the catalog: 0.1 makes an emulated mesh run "
        "ten times as fast; all processes of a mesh must agree",
        minimum=1e-4,
    )
    redis_url: str = setting("redis://127.0.0.1:6379/0", "the store for data between nodes")
    redis_max_mb: int = setting(
        0,
        "most data that the Redis of `esg up` holds; 0: a quarter of the machine's memory",
        minimum=0,
    )
    key_prefix: str = setting("esg", "prefix of all keys in Redis")
    data_ttl_s: int = setting(
        600, "how long data stays in Redis, or in shared_data, if it is not deleted", minimum=1
    )
    shared_data: str = setting(
        "",
        "a directory in memory (/dev/shm) through which large data of requests that are waited for "
        "goes instead of Redis; only if all gateways and nodes of the mesh, and nobody else, share "
        "it; empty: none",
    )
    shared_data_mb: int = setting(
        1024,
        "most data there (and never more than half of its file system); more goes through Redis",
        minimum=1,
    )
    tls_ca: str = setting(
        "",
        "the CA certificates (PEM) that services trust; with them they use TLS, and authenticate "
        "each other (mTLS); empty: no TLS",
    )
    tls_certificate: str = setting("", "this process' certificate (PEM)")
    tls_key: str = setting("", "the certificate's private key (PEM)")
    tls_domain: str = setting(
        SERVICE_DOMAIN,
        "the domain of the names in services' certificates (controller.esg), which callers "
        "verify; empty: they verify the host that they call",
    )
    insecure: bool = setting(
        False, "whether services may listen and call without TLS off the loopback"
    )
    metrics_host: str = setting(
        LOOPBACK, "the address of the Prometheus endpoints; 0.0.0.0 for every interface"
    )
    log_level: str = setting("info", "debug, info, warning or error")
    log_format: str = setting("json", "json (an object per line) or text")
    drain_s: float = setting(
        30.0, "how long a process that is told to stop may take to finish its work", minimum=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """The public entry point."""

    host: str = setting(LOOPBACK, "the address to listen on; 0.0.0.0 for every interface")
    port: int = port_setting(GATEWAY_PORT, "the port to listen on")
    metrics_port: int = metrics_port_setting()
    controller: str = setting("127.0.0.1:50052", "where the controller listens")
    tls_certificate: str = setting(
        "", "the certificate (PEM) that clients see; empty: the one that services see"
    )
    tls_key: str = setting("", "the private key (PEM) of that certificate")
    tls_client_ca: str = setting(
        "",
        "the CA certificates (PEM) that clients' certificates are verified with; empty: clients "
        "need no certificate",
    )
    tokens: str = setting(
        "",
        "the file with the clients' tokens, written by esg tokens; empty: anyone may call",
    )
    audit_log: str = setting(
        "",
        "the file for the audit log, which says who changed what and who was refused; empty: in "
        "the service's own log, as JSON with audit set",
    )
    max_payload_bytes: int = setting(64 * 2**20, "the largest payload accepted", minimum=1)
    inline_bytes: int = setting(
        2 * 2**20,
        "the largest result in one message; larger ones are fetched in pieces",
        minimum=1024,
    )
    small_payload_bytes: int = setting(
        16 * 2**10,
        "the largest payload that travels with its request through the controller instead of "
        "through Redis, if its client waits for the result; 0: none does",
        minimum=0,
        maximum=MOST_INLINE_BYTES,
    )
    durable_payloads: bool = setting(
        True,
        "whether an asynchronous request is accepted only when Redis has its payload on "
        "disk (Redis from 7.2 on, or Valkey, with appendonly yes)",
    )
    max_under_way: int = setting(
        10_000, "requests that may be under way; more are refused", minimum=1
    )
    max_requests_per_s: float = setting(
        0.0,
        "requests per second that a client without a token (an address) may begin; 0: any number",
        minimum=0,
    )
    burst: int = setting(
        Quota().burst, "requests that a client may begin at once beyond that", minimum=1
    )
    max_streams: int = setting(
        1000,
        "streams (SubmitMany, SubmitChunked, Fetch, Watch, WatchMesh) that one client may have "
        "open",
        minimum=1,
    )
    max_message_bytes: int = setting(
        4 * 2**20,
        "the largest message accepted, after it was decompressed; larger payloads come in pieces "
        "(SubmitChunked)",
        minimum=2**20 + 2**16,
    )
    max_group: int = setting(
        LARGEST_GROUP,
        "requests in one message of a stream (SubmitMany); more end the stream",
        minimum=LARGEST_GROUP,  # our own clients send as many
    )
    max_unanswered: int = setting(
        2000,
        "requests on one stream (SubmitMany) whose replies were not sent yet; while there are as "
        "many, no more are read",
        minimum=1,
    )
    max_client_memory_mb: float = setting(
        256.0,
        "payloads and messages of one client that are held at a time; what has to wait for them is "
        "not read, uploads beyond are refused",
        minimum=8,
    )
    max_memory_mb: float = setting(
        1024.0, "payloads and messages of all clients that are held at a time", minimum=8
    )
    upload_silent_s: float = setting(
        30.0, "an upload that has been silent for so long is ended", minimum=0.1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The scheduler, as a service."""

    host: str = setting(LOOPBACK, "the address to listen on")
    port: int = port_setting(50052, "the port to listen on")
    metrics_port: int = metrics_port_setting()
    policy: str = setting(
        DEFAULT_POLICY,
        "the scheduling policy: apex, esg (the paper's), or any other that `esg emulate` knows",
    )
    engine: str = setting(_USUAL.engine, "the search engine of policy esg: frontier or astar")
    k: int = setting(_USUAL.k, "plans that policy esg offers per decision", minimum=1)
    group_size: int = setting(
        _USUAL.group_size, "functions per group, for policy esg with the astar engine", minimum=1
    )
    without: str = setting(
        "", "parts of policy apex to leave out, separated by commas (docs/apex.md)"
    )
    trained: str = setting(
        "", "what policy aquatope has learnt of the catalog: a file written by esg train"
    )
    tasks: str = setting(
        str(_USUAL.tasks),
        "what tasks hold: joint (all of it to their end, as in the paper), or phased (slices for "
        "their GPU part only; docs/phases.md)",
    )
    prewarm: bool = setting(True, "whether models are loaded ahead of predicted calls")
    follow_profiles: bool = setting(
        True, "whether plans follow measured task times where these differ from the profiles"
    )
    max_attempts: int = setting(
        _USUAL.max_attempts,
        "how often one stage of a request may fail before the request does",
        minimum=1,
        maximum=1000,
    )
    retry_pause_ms: float = setting(
        to_ms(_USUAL.retry_pause_us),
        "the time before a stage's second retry; before each further one it is twice as long",
        minimum=0,
        maximum=60_000,
    )
    recheck_rounds: int = setting(
        _USUAL.recheck_rounds,
        "rounds after which a queue whose plans find no room takes the minimum config",
        minimum=1,
        maximum=1000,
    )
    recheck_interval_ms: float = setting(
        to_ms(_USUAL.recheck_interval_us),
        "the time until such a queue is looked at again, if nothing else happens",
        minimum=0.1,
        maximum=60_000,
    )
    journal: str = setting(
        "",
        "the directory of the journal, a write-ahead log of all events from which a restarted "
        "controller resumes; empty: none, and a restart forgets everything",
    )
    journal_salvage: bool = setting(
        False,
        "whether a controller whose journal is damaged resumes from the last group before the "
        "damage, without what came later; the damaged segment is kept, as *.damaged",
    )
    sync: bool = setting(
        True,
        "whether answers wait until the journal is on disk; without, it survives the end of the "
        "process but not of the machine",
    )
    sync_ms: float = setting(
        0.0,
        "the least time from one sync to the next; raise it if syncs keep a slow disk from other "
        "work: answers then wait for each other",
        minimum=0,
        maximum=1000,
    )
    segment_mb: float = setting(
        4.0,
        "a segment of the journal with more events than that, and than its own snapshot, is "
        "followed by another one: the larger, the longer a restart may take",
        minimum=0.001,
    )
    segment_work_s: float = setting(
        1.0,
        "a segment whose events took so long to handle, and much longer than its snapshot takes, "
        "is followed by another one: about as long as a restart takes to live through them again",
        minimum=0.01,
    )
    kept_segments: int = setting(
        4, "older segments that are kept, for replays and bug reports", minimum=0
    )
    max_wait_s: int = setting(
        60,
        "a request that would wait longer is refused, going by how often those of the same "
        "client for the same application have been answered lately; 0: any time",
        minimum=0,
        maximum=86_400,
    )
    max_waiting: int = setting(
        5000,
        "jobs of one client for one application that may wait; more requests are refused; 0: any",
        minimum=0,
    )
    max_waiting_in_all: int = setting(
        10_000,
        "jobs of all together that may wait, before those clients with more than an equal share of "
        "them are refused, for those applications with more than an equal share of theirs; 0: any "
        "number",
        minimum=0,
    )
    fair_quantum_ms: int = setting(
        200,
        "vGPU time that one client, or one of its applications, may be given more than another "
        "while both wait; 0: the policy alone decides who comes first",
        minimum=0,
    )
    max_applications: int = setting(
        1000, "registered applications, besides the catalog's; more are refused", minimum=1
    )
    max_applications_per_client: int = setting(
        100, "registered applications of one client with a token", minimum=1
    )
    max_application_parts: int = setting(
        50_000, "stages and edges of all registered applications together", minimum=1
    )
    max_application_parts_per_client: int = setting(
        20_000, "stages and edges of the applications of one client with a token", minimum=1
    )
    max_changes_per_minute: int = setting(
        300, "changes of applications that one client may make in a minute", minimum=1
    )
    heartbeat_ms: int = setting(
        SESSIONS.heartbeat_us // US_PER_MS,
        "interval between inventories that an invoker sends",
        minimum=10,
    )
    lost_after_ms: int = setting(
        SESSIONS.lost_after_us // US_PER_MS,
        "an invoker that has been silent for this long is lost, with all it ran",
        minimum=10,
    )
    rejoin_ms: int = setting(
        SESSIONS.rejoin_us // US_PER_MS,
        "how long an invoker whose connection broke may take to come back before it is lost",
        minimum=0,
    )
    remembered: int = setting(100_000, "most answered requests to remember", minimum=1)
    remembered_s: int = setting(
        600,
        "how long the result of an asynchronous request can be fetched",
        minimum=1,
    )
    small_result_bytes: int = setting(
        16 * 2**10,
        "the largest result that comes along with the report and the answer instead of through "
        "Redis, if somebody waits for it; 0: none does",
        minimum=0,
        maximum=MOST_INLINE_BYTES,
    )
    repeats_s: int = setting(
        60, "how long other answered requests are remembered, for clients that ask again", minimum=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokerSettings:
    """One worker node."""

    node: str = setting(
        "",
        "its name; empty: the host's. Several names, with commas: one process has all of these "
        "nodes, each with emulated slices, a folder of `store` and the next `metrics_port`",
    )
    host: str = setting(LOOPBACK, "the address of its health service")
    port: int = port_setting(0, "the port of its health service")
    metrics_port: int = metrics_port_setting()
    controller: str = setting("127.0.0.1:50052", "where the controller listens")
    vcpus: int = setting(0, "vCPUs to give to tasks; 0: as many as the machine has", minimum=0)
    slices: str = setting(
        "emulated:7",
        "emulated:N (one process that speaks Triton's protocol and takes the profiled times), "
        "cpu:N (N Triton servers without a GPU, of one thread each), mig (a Triton server on every "
        "MIG instance of this host), gpu (on every GPU that is not in MIG mode), auto (both; "
        "emulated where there is no driver), or the addresses of running Triton servers: "
        "host:port,host:port,... or unix:PATH,..., with their kinds if the catalog has names for "
        "those (3g.40gb@host:port). Instead of N, a layout of kinds: emulated:4g.40gb+3g.40gb, "
        "cpu:cpu-2+2xcpu-1; several, with commas, are those that nodes have in turn",
    )
    slice_memory_mb: int = setting(
        0,
        "memory per slice; 0: as NVML says of GPUs, otherwise as the catalog says of its kind",
        minimum=0,
    )
    triton: str = setting(
        "",
        "the Triton server to start for slices: a tritonserver, or the directory of the models' "
        "environment; empty: the one on the PATH, else that of `esg models install`",
    )
    slice_logs: str = setting(
        "", "the directory for the logs of Triton servers; empty: a temporary one"
    )
    slice_silent_s: float = setting(
        10.0,
        "a slice that has not answered for this long is lost; a Triton server that this node "
        "started is then restarted",
        minimum=0.1,
    )
    shared_memory_mb: int = setting(
        64,
        "memory per slice to pass large tensors through to Triton servers on this host: its "
        "loopback, or a Unix socket; 0: all go over the wire",
        minimum=0,
    )
    store: str = setting("", "the directory for local data; empty: one in /dev/shm")
    store_memory_mb: int = setting(64, "memory for small local data instead of files", minimum=0)
    payload_scale: float = setting(
        1.0, "size of emulated models' outputs, relative to the catalog's input sizes", minimum=0
    )
    noise: float = setting(1.0, "spread of emulated times, relative to the profiles'", minimum=0)
    seed: int = setting(0, "seed of emulated times", minimum=0)
    warm_start: bool = setting(
        False, "whether emulated slices start with every model that fits already loaded"
    )
    load_timeout_s: float = setting(
        600.0, "how long loading a model may take before it counts as failed", minimum=0.1
    )
    keep_alive_s: float = setting(
        KEEP_ALIVE_US / US_PER_S, "idle time after which a model is unloaded", minimum=0
    )
    fetch_timeout_s: float = setting(10.0, "how long a task waits for an input", minimum=0)
    infer_timeout_s: float = setting(
        60.0, "how long one call to a slice may take, beyond the predicted time", minimum=0
    )
    handler_timeout_s: float = setting(
        60.0,
        "how long a function's handler may take for one job, before and again after the model; "
        "then its process is killed, and the job fails",
        minimum=0.1,
    )


SECTIONS: dict[str, type[Any]] = {
    "common": CommonSettings,
    "gateway": GatewaySettings,
    "controller": ControllerSettings,
    "invoker": InvokerSettings,
}
