"""The interactive prompt: reads statements on a terminal, with completion and a history."""
