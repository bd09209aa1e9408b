"""Access: callers and their credentials, permissions, limits, and the policy of the operator."""
