"""Hosting: what turns workflows and activities into a running Temporal worker."""
