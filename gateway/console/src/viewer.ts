// Windows over a result: one row with its values in full, and what the values of a column are.

import { isNumeric, type Column } from "./api";
import { button, copy, count, h, plural } from "./dom";
import { exact } from "./scales";

const MOST_FREQUENT = 10;
const VALUE_CHARACTERS = 60;

type Row = (string | null)[];

/** Shows a window until it is closed; what had the focus gets it back. */
function open(name: string, ...content: HTMLElement[]): HTMLDialogElement {
  const before = document.activeElement;
  const close = button("Close", "Closes this window (Esc)", () => dialog.close());
  const dialog = h("dialog", { class: "viewer", "aria-label": name }, ...content, h("div", { class: "foot" }, close));
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement) before.focus();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
  return dialog;
}

/** Shows a row, one value below the other, beginning at a column. */
export function viewRow(columns: Column[], row: Row, number: number, column: number, statistics: () => void): void {
  const value = (at: number): HTMLElement => {
    const text = row[at] ?? null;
    const shown = text === null ? "NULL" : isNested(columns[at]!) ? indented(text) : text;
    return h("dd", { class: text === null ? "null" : undefined }, shown);
  };
  const items = columns.map((each, at) =>
    h("div", { class: at === column ? "current" : undefined }, h("dt", {}, each.name, h("span", { class: "muted" }, each.type)), value(at)),
  );
  const name = columns[column]?.name ?? "";
  const copied = button("Copy value", `The value of ${name}`, () => {
    void copy(row[column] ?? "").then((worked) => (copied.textContent = worked ? "Copied" : "Not copied"));
  });
  const dialog: HTMLDialogElement = open(
    `Row ${count(number + 1)}`,
    h(
      "div",
      { class: "head" },
      h("h2", {}, `Row ${count(number + 1)}`),
      copied,
      button("Statistics", `What the values of ${name} are`, () => {
        dialog.close();
        statistics();
      }),
    ),
    h("dl", { class: "values", tabindex: "0", "aria-label": "Values" }, ...items),
  );
  items[column]?.scrollIntoView({ block: "nearest" });
}

/** Shows what the values of a column are, of the first rows of so many. */
export function viewStatistics(column: Column, values: (string | null)[], total: number): void {
  const facts = statistics(column, values);
  const frequent = mostFrequent(values);
  const of = values.length < total ? `Of ${plural(total, "row")}, the first ${count(values.length)}.` : `Of ${plural(total, "row")}.`;
  open(
    `Statistics of ${column.name}`,
    h("h2", {}, column.name, h("span", { class: "muted" }, ` ${column.type}`)),
    h("p", { class: "muted" }, of),
    h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    frequent.length > 0 ? h("h3", {}, "Most frequent") : h("p", { class: "muted" }, "Every value is there once."),
    h(
      "ol",
      { class: "frequent" },
      ...frequent.map(([value, times]) => {
        const bar = h("i", {});
        bar.style.width = `${(100 * times) / (frequent[0]?.[1] ?? 1)}%`;
        return h("li", {}, h("code", { title: value.slice(0, 1000) }, value.slice(0, VALUE_CHARACTERS)), h("div", { "aria-hidden": "true" }, bar), h("span", {}, `${count(times)} · ${exact(Math.round((1000 * times) / values.length) / 10)} %`));
      }),
    ),
  );
}

function statistics(column: Column, values: (string | null)[]): [string, string][] {
  const given = values.filter((value) => value !== null);
  const share = values.length > 0 ? Math.round((1000 * (values.length - given.length)) / values.length) / 10 : 0;
  const facts: [string, string][] = [
    ["nulls", `${count(values.length - given.length)} (${exact(share)} %)`],
    ["distinct", count(new Set(given).size)],
  ];
  const ordered = given.filter((value) => !isNumeric(column) || !Number.isNaN(Number(value)));
  if (ordered.length === 0 || isNested(column)) return facts;
  const order = comparison(column);
  facts.push(["lowest", ordered.reduce((a, b) => (order(a, b) <= 0 ? a : b))], ["highest", ordered.reduce((a, b) => (order(a, b) >= 0 ? a : b))]);
  if (isNumeric(column)) {
    facts.push(["average", exact(ordered.reduce((sum, value) => sum + Number(value) / ordered.length, 0))]);
    if (ordered.length < given.length) facts.push(["not a number", count(given.length - ordered.length)]);
  } else if (/^(varchar|char)/.test(column.type)) {
    const lengths = given.map((value) => [...value].length);
    facts.push(["characters", `${count(lengths.reduce((a, b) => Math.min(a, b)))} to ${count(lengths.reduce((a, b) => Math.max(a, b)))}`]);
  }
  return facts;
}

/** How the texts of a column's values are ordered; whole numbers may have more digits than a float. */
function comparison(column: Column): (one: string, other: string) => number {
  if (/^(tinyint|smallint|integer|bigint)/.test(column.type)) return (one, other) => Number(BigInt(one) - BigInt(other));
  if (isNumeric(column)) return (one, other) => Number(one) - Number(other);
  return (one, other) => (one < other ? -1 : one > other ? 1 : 0);
}

function mostFrequent(values: (string | null)[]): [string, number][] {
  const times = new Map<string, number>();
  for (const value of values) times.set(value ?? "NULL", (times.get(value ?? "NULL") ?? 0) + 1);
  if (times.size === values.length) return [];
  return [...times].sort((one, other) => other[1] - one[1]).slice(0, MOST_FREQUENT);
}

export function isNested(column: Column): boolean {
  return /^(array|map|row|json)/.test(column.type);
}

/** JSON in lines, with all of its digits: it is not read into numbers. */
export function indented(json: string): string {
  let depth = 0;
  const line = (by: number): string => `\n${"  ".repeat((depth += by))}`;
  return json.replace(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[[{]|[\]}]|,\s*|:\s*/g, (token) => {
    const first = token[0]!;
    if (first === '"') return token;
    if (first === ",") return `,${line(0)}`;
    if (first === ":") return ": ";
    if (first === "[" || first === "{") return token.length > 1 ? token : `${token}${line(1)}`;
    return `${line(-1)}${token}`;
  });
}
