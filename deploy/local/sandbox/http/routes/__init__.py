"""The routes of the Apify API v2, one module per resource, and those of the control API."""
