"""Planner rules, one per module: each rewrites a logical plan into an equivalent, cheaper one."""
