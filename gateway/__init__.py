"""The gateway: wiring, policy and wire formats around the planners and connectors."""
