"""The dialect of Apify's own MCP server (0.16): its clients match on the codes, and on how messages begin."""

from outlast.api.mcp.dialects.apify.dialect import ApifyDialect

__all__ = ["ApifyDialect"]
