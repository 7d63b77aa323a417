"""One rule a file: each rewrites a logical plan into an equivalent, cheaper one."""
