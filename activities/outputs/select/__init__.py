"""Which part of a stored output is wanted: rows, bytes, fields, JMESPath expressions."""
