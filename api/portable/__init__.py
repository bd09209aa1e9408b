"""Tools as every provider takes them: names and schemas that fit all of their rules."""
