"""The MCP protocol's two revisions, and the shapes that differ between them."""
