"""The tools: one tool, one module. Imports point down: registry -> modes -> core -> tool."""
