"""The process that carries tool calls out."""
