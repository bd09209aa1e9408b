"""The MCP front door, in both protocol eras: 2025-11-25 (handshake) and 2026-07-28 (stateless requests)."""
