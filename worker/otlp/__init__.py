"""Export to an OpenTelemetry collector: the spans of calls, in all processes, and metrics."""
