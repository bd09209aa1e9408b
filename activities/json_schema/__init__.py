"""JSON Schemas of the outside world: the only room where one is compiled or applied to a value."""
