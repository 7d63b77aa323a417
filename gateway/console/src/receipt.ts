// What a result reflects, for people: engine, rows of each tier, the seam of each table, the token.

import type { Receipt } from "./api";
import { button, bytes, copy, count, h, plural } from "./dom";
import { legend, seam } from "./pictures";
import { ours, problemBox } from "./problems";

interface Read {
  table: string[];
  snapshot_id: string | number | null;
  topic: string | null;
  isolation?: string;
  /** Null, as other numbers are, where the reader may not see all rows. */
  boundary: { [partition: string]: number } | null;
  end: { [partition: string]: number } | null;
  files_read?: number | null;
  files_total?: number | null;
  pending_offsets?: number | null;
  gaps?: { offsets: number }[] | null;
  earlier_logs?: number | null;
}

/** Shows a receipt; `pin` has the session read the same rows as a token from then on. */
export function receipt(found: Receipt, pin: (token: string) => Promise<unknown>): HTMLElement {
  if (!found.engine) return h("p", { class: "muted" }, "A statement that reads tables leaves a receipt.");
  const tables = (found["tables"] ?? []) as Read[];
  const token = typeof found["token"] === "string" ? found["token"] : null;
  const hasLog = tables.some((read) => Object.keys(read.end ?? {}).length > 0);
  return h(
    "div",
    { class: "plan" },
    h("p", { class: "route" }, h("span", { class: `badge engine ${found.engine}` }, found.engine), ` ${String(found["engine_reason"] ?? "")}`),
    h(
      "dl",
      { class: "facts" },
      ...fact("as of", `${String(found.as_of ?? "").replace("+00:00", "Z")} (${String(found["freshness"] ?? "")})`),
      ...tier("cold", found.rows_cold, found.bytes_cold, "files"),
      ...tier("hot", found.rows_hot, found.bytes_hot, "the log"),
      ...(token ? fact("token", tokenButton(token), " ", pinButton(token, pin), " the same rows again, whatever has been tiered since") : []),
    ),
    hasLog && legend(false),
    ...tables.map(table),
    h("details", {}, h("summary", {}, "As JSON"), h("pre", { class: "text", tabindex: "0" }, JSON.stringify(found, null, 2))),
  );
}

function tier(name: string, rows: number | null | undefined, size: number | null | undefined, store: string): HTMLElement[] {
  if (rows === null) return [];
  const read = size === null ? "" : ` ${bytes(size ?? 0)} of ${store}`;
  return fact(name, h("span", { class: `badge ${name}` }, plural(rows ?? 0, "row")), read);
}

function fact(name: string, ...said: (Node | string)[]): HTMLElement[] {
  return [h("dt", {}, name), h("dd", {}, ...said)];
}

function table(read: Read): HTMLElement {
  const partitions = Object.keys(read.end ?? {})
    .map(Number)
    .sort((one, other) => one - other)
    .map((partition) => ({ partition, boundary: read.boundary?.[partition] ?? 0, end: read.end?.[partition] ?? 0 }));
  const parts = [
    read.snapshot_id !== null && `snapshot ${read.snapshot_id}`,
    typeof read.files_total === "number" && `${count(read.files_read ?? 0)} of ${plural(read.files_total, "file")}`,
    read.topic && `topic ${read.topic}${read.isolation ? ` (${read.isolation})` : ""}`,
    read.pending_offsets && `${plural(read.pending_offsets, "offset")} held back by open transactions`,
    read.gaps?.length && `${plural(read.gaps.reduce((sum, gap) => sum + gap.offsets, 0), "offset")} lost, as was accepted`,
    read.earlier_logs && `rows of ${plural(read.earlier_logs, "earlier log")} of the topic`,
  ].filter(Boolean);
  return h(
    "section",
    { class: "scan" },
    h("h3", {}, read.table.join(".")),
    h("p", { class: "muted" }, parts.join(" · ")),
    partitions.length > 0 && seam(partitions, read.table.join(".")),
  );
}

function tokenButton(token: string): HTMLElement {
  const button = h("button", { type: "button", title: "SET SESSION token = '…' reads the same rows again" }, "Copy token");
  button.addEventListener("click", () => {
    void copy(token).then((worked) => (button.textContent = worked ? "Copied" : "Not copied"));
  });
  return button;
}

function pinButton(token: string, pin: (token: string) => Promise<unknown>): HTMLElement {
  const made = button("Read at this token", "The statements of this tab read these rows, until the token is taken back beside the editor", () => {
    pin(token).then(
      () => (made.textContent = "The session reads at it"),
      (error: unknown) => made.replaceWith(problemBox(ours(error))),
    );
  });
  return made;
}
