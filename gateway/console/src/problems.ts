// What went wrong, as the page shows it.

import { ApiError, type Problem } from "./api";
import { h } from "./dom";

export function named(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  return { code: "INTERNAL_ERROR", message: error instanceof Error ? error.message : String(error), hint: "" };
}

/** A problem of a statement of the page's own, in which nobody looks for a position. */
export function ours(error: unknown): Problem {
  return { ...named(error), location: null };
}

/** A problem of a statement that was sent below lines of the page's own, and without its head. */
export function within(head: string, problem: Problem, above = 1): Problem {
  const place = problem.location;
  if (!place) return problem;
  const skipped = head.split("\n");
  const line = place.line - above;
  const column = place.column + (line === 1 ? skipped.at(-1)!.length : 0);
  return { ...problem, location: line < 1 ? null : { line: line + skipped.length - 1, column } };
}

export function problemBox(problem: Problem): HTMLElement {
  const place = problem.location ? ` (line ${problem.location.line}, column ${problem.location.column})` : "";
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", {}, h("span", { class: "badge bad" }, problem.code), ` ${problem.message}${place}`),
    problem.hint && h("p", { class: "muted" }, problem.hint),
  );
}
