"""Metrics of the API process. What tools do is counted by the worker."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
for _collector in (ProcessCollector, PlatformCollector, GCCollector):
    _collector(registry=REGISTRY)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(name, text, labels, registry=REGISTRY)


REQUESTS = _counter("outlast_http_requests", "HTTP requests answered.", "method", "route", "status")
REQUEST_SECONDS = Histogram(
    "outlast_http_request_duration_seconds",
    "Time until an HTTP answer began.",
    ["method", "route"],
    registry=REGISTRY,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
BROKEN_ANSWERS = _counter(
    "outlast_http_answers_broken",
    "HTTP answers that began and were not completed, by cause.",
    "method",
    "route",
    "cause",
)
ENDED_RESPONSES = _counter("outlast_responses_ended", "Responses that the server ended early, by reason.", "reason")
MASK_RESOLUTIONS = _counter("outlast_tool_mask_resolutions", "Tool masks resolved, by outcome.", "outcome")
POLICY_LOADS = _counter("outlast_policy_loads", "Times the policy file was read again, by outcome.", "outcome")
POLICY_REFUSED = _gauge(
    "outlast_policy_refused", "1 while the policy file is invalid, so that the former policy applies; else 0."
)
ISSUER_READS = _counter(
    "outlast_issuer_reads", "Times the keys of the authorization server were read, by outcome.", "outcome"
)
REUSED_CALLS = _counter("outlast_reused_calls", "Calls that an identical one may answer, by outcome.", "outcome")
LIMITED = _counter("outlast_limited", "Requests and connections refused because of a limit.", "limit")
LIMIT_NEAR = _gauge(
    "outlast_limit_near_ratio",
    "Share of a limit that a caller uses now, for callers that use at least half of it.",
    "limit",
    "caller",
)
LIMIT_USED = _gauge("outlast_limit_used_ratio", "Share of each limit that the caller nearest to it uses now.", "limit")
AUDIT_RECORDS = _counter("outlast_audit_records", "Records for the audit log, by outcome.", "outcome")
QUEUED_TASKS = _gauge("outlast_queued_tasks", "Tasks that wait for their caller's share.", "caller")
DISK_FREE = _gauge("outlast_disk_free_bytes", "Free space on the disks of this machine that are written to.", "place")
OPEN_TASKS = _gauge("outlast_open_tasks", "Tasks whose workflow has not ended; NaN while unknown.")
HANDOFFS_NEAR_DEADLINE = _gauge(
    "outlast_handoffs_near_deadline",
    "Tasks that wait for an answer and have a fifth of its time or less left; NaN while unknown.",
)
SERVER_UP = _gauge(
    "outlast_mcp_server_up",
    "1 if the tools of an MCP server in use could be listed at the last attempt, else 0.",
    "server",
)
EXPIRY = _gauge(
    "outlast_expiry_timestamp_seconds", "When the next certificate or key of a kind ends, as Unix time.", "kind"
)
