"""Traces by OpenTelemetry: what a call does in the API, in its workflow, in its activities and at the platform."""
