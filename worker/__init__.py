"""Hosting: the process that carries tool calls out."""
