"""Secrets: encrypted before they enter a workflow, opened only in an activity."""
