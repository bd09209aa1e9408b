"""Secrets: sealed before they enter a workflow, opened only in an activity."""
