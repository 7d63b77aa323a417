"""What several suites share: waiting, running the gateway, text-file tests."""
