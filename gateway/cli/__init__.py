"""Commands of `seamline` that need the gateway's parts; loaded when called."""
