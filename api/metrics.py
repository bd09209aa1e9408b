"""Metrics of the API process. What tools do is counted by the worker."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
for _collector in (ProcessCollector, PlatformCollector, GCCollector):
    _collector(registry=REGISTRY)

REQUESTS = Counter("outlast_http_requests", "HTTP requests answered.", ["method", "route", "status"], registry=REGISTRY)
REQUEST_SECONDS = Histogram(
    "outlast_http_request_duration_seconds",
    "Time until an HTTP answer began.",
    ["method", "route"],
    registry=REGISTRY,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
BROKEN_ANSWERS = Counter(
    "outlast_http_answers_broken",
    "HTTP answers that began and were not completed, by cause.",
    ["method", "route", "cause"],
    registry=REGISTRY,
)
ENDED_RESPONSES = Counter(
    "outlast_responses_ended",
    "Responses that the server ended early, by reason.",
    ["reason"],
    registry=REGISTRY,
)
MASK_RESOLUTIONS = Counter(
    "outlast_tool_mask_resolutions", "Tool masks resolved, by outcome.", ["outcome"], registry=REGISTRY
)
POLICY_LOADS = Counter(
    "outlast_policy_loads", "Times the policy file was read again, by outcome.", ["outcome"], registry=REGISTRY
)
POLICY_REFUSED = Gauge(
    "outlast_policy_refused",
    "1 while the policy file is another one than the policy in force, since it cannot be used; else 0.",
    registry=REGISTRY,
)
ISSUER_READS = Counter(
    "outlast_issuer_reads",
    "Times the keys of the authorization server were read, by outcome.",
    ["outcome"],
    registry=REGISTRY,
)
REUSED_CALLS = Counter(
    "outlast_reused_calls", "Calls that an equal one may answer, by what did.", ["outcome"], registry=REGISTRY
)
LIMITED = Counter(
    "outlast_limited", "Requests and connections refused because of a limit.", ["limit"], registry=REGISTRY
)
LIMIT_NEAR = Gauge(
    "outlast_limit_near_ratio",
    "Share of a limit that a caller uses now, of callers that use half of it or more.",
    ["limit", "caller"],
    registry=REGISTRY,
)
LIMIT_USED = Gauge(
    "outlast_limit_used_ratio",
    "Share of each limit that the caller nearest to it uses now.",
    ["limit"],
    registry=REGISTRY,
)
AUDIT_RECORDS = Counter(
    "outlast_audit_records", "Records for the audit log, by outcome.", ["outcome"], registry=REGISTRY
)
QUEUED_TASKS = Gauge("outlast_queued_tasks", "Tasks that wait for their caller's share.", ["caller"], registry=REGISTRY)
DISK_FREE = Gauge(
    "outlast_disk_free_bytes",
    "Free space on the disks of this machine that are written to.",
    ["place"],
    registry=REGISTRY,
)
OPEN_TASKS = Gauge("outlast_open_tasks", "Tasks whose workflow has not ended; NaN while unknown.", registry=REGISTRY)

HANDOFFS_NEAR_DEADLINE = Gauge(
    "outlast_handoffs_near_deadline",
    "Tasks that wait for an answer and have a fifth of its time or less left; NaN while unknown.",
    registry=REGISTRY,
)
EXPIRY = Gauge(
    "outlast_expiry_timestamp_seconds",
    "When the next certificate or key of a kind ends, as Unix time.",
    ["kind"],
    registry=REGISTRY,
)
