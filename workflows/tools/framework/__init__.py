"""How a tool is defined, and what happens around its handler."""
