"""What a handler calls: one stub per room of the activities."""
