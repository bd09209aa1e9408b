"""Files and commands of a conversation, confined to its folder and a sandbox."""
