"""Access control: who is asking, and what they may do."""
