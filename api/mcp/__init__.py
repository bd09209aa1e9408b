"""The MCP entry point, for protocol versions 2025-11-25 (handshake) and 2026-07-28 (stateless requests)."""
