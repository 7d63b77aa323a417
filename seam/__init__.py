"""The core: where a table's snapshot ends and its log begins, as pure functions of facts."""
