"""The gateway: policy, statements and wire formats around the planners and connectors."""
