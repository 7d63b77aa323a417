"""Chaos on real parts: exactness attacked by a nemesis, judged by a checker."""
