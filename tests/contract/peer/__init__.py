"""Apify's own MCP server beside ours, on one platform: what differs on purpose stands in `differences.py`."""
