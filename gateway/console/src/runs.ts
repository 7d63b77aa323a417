// A statement's way on the page: submitted, watched, canceled, and its rows, chart, plan and receipt.

import { Api, ApiError, ENDED, type Manifest, type Problem } from "./api";
import { bytes, count, h, plural, seconds } from "./dom";
import { Grid } from "./grid";
import { chart, plan, type Plan } from "./pictures";
import type { Part } from "./statements";

const POLL_S = 1;
const LIVE_MS = 2000;
const LIVE_TIMES = 60;
const CHARTED = 300;

type Tab = "rows" | "chart" | "plan" | "receipt";
const TABS: [Tab, string][] = [
  ["rows", "Rows"],
  ["chart", "Chart"],
  ["plan", "Plan"],
  ["receipt", "Receipt"],
];

export class Runs {
  readonly element = h("section", { class: "results", "aria-label": "Result" });
  private readonly status = h("div", { class: "status", role: "status", "aria-live": "polite" });
  private readonly content = h("div", { class: "content", id: "tab-content", role: "tabpanel" });
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the result" });
  private readonly actions = h("div", { class: "actions" });
  private tab: Tab = "rows";
  private manifest: Manifest | null = null;
  private statement = "";
  private grid: Grid | null = null;
  private problem: Problem | null = null;
  private number = 0;
  private live = 0;

  constructor(
    private readonly api: Api,
    private readonly onChange: (id: string | null) => void,
    private readonly onProblem: (problem: Problem) => void,
  ) {
    this.element.append(h("div", { class: "bar" }, this.tabs, this.actions), this.status, this.content);
    this.show();
  }

  get isRunning(): boolean {
    return this.manifest !== null && !ENDED.has(this.manifest.state);
  }

  /** Runs a statement; a later one takes its place. */
  async run(part: Part): Promise<void> {
    const number = this.begin(part.text);
    this.status.replaceChildren("Submitting …");
    try {
      const manifest = await this.api.submit(part.text);
      if (number !== this.number) return;
      this.onChange(manifest.statement_id);
      await this.watch(manifest, number);
    } catch (error) {
      if (number === this.number) this.failed(named(error));
    }
  }

  /** Shows a statement that was submitted before, here or elsewhere. */
  async open(id: string, statement: string): Promise<void> {
    if (this.manifest?.statement_id === id) return;
    const number = this.begin(statement);
    try {
      await this.watch(await this.api.manifest(id), number);
    } catch (error) {
      if (number === this.number) this.failed(named(error));
    }
  }

  /** Shows what a statement would read, and where. */
  async explain(part: Part): Promise<void> {
    this.begin(part.text);
    this.tab = "plan";
    this.show();
  }

  async cancel(): Promise<void> {
    if (!this.manifest || !this.isRunning) return;
    this.status.replaceChildren("Canceling …");
    try {
      await this.api.cancel(this.manifest.statement_id);
    } catch (error) {
      this.failed(named(error));
    }
  }

  private begin(statement: string): number {
    this.statement = statement;
    this.manifest = this.grid = this.problem = null;
    if (this.tab === "receipt") this.tab = "rows";
    this.show();
    return ++this.number;
  }

  private async watch(manifest: Manifest, number: number): Promise<void> {
    for (;;) {
      if (number !== this.number) return;
      this.manifest = manifest;
      this.told(manifest);
      if (ENDED.has(manifest.state)) break;
      manifest = await this.api.manifest(manifest.statement_id, POLL_S);
    }
    if (manifest.error) return this.failed(manifest.error);
    this.api.remember(manifest);
    const chunks = manifest.chunks?.rows ?? [];
    this.grid = new Grid(manifest.columns, chunks, (chunk) => this.api.chunk(manifest.statement_id, chunk));
    this.show();
  }

  private failed(problem: Problem): void {
    this.problem = problem;
    this.api.forget(problem);
    this.status.replaceChildren();
    this.tab = "rows";
    this.show();
    this.onProblem(problem);
  }

  private told(manifest: Manifest): void {
    const { receipt = {}, progress } = manifest;
    const parts: (Node | string)[] = [h("strong", {}, manifest.state.toLowerCase()), ` · ${seconds(manifest.elapsed_s)}`];
    if (ENDED.has(manifest.state)) {
      if (manifest.update_type) {
        const rows = manifest.update_count === null || manifest.update_count === undefined ? "" : `, ${plural(manifest.update_count, "row")}`;
        parts.push(` · ${manifest.update_type}${rows}`);
      } else parts.push(` · ${plural(manifest.row_count, "row")}`);
      if (manifest.truncated) parts.push(" (cut off)");
      if (receipt.engine) {
        parts.push(
          " · ",
          h("span", { class: "badge cold" }, `${count(receipt.rows_cold ?? 0)} cold`),
          " ",
          h("span", { class: "badge hot" }, `${count(receipt.rows_hot ?? 0)} hot`),
          ` read · ${receipt.engine}`,
          ` · ${bytes((receipt.bytes_cold ?? 0) + (receipt.bytes_hot ?? 0))}`,
        );
      }
    } else {
      const estimated = Number(progress["rows_estimated"] ?? 0);
      parts.push(
        progress["engine"] ? ` · ${String(progress["engine"])}` : "",
        estimated ? ` · about ${plural(estimated, "row")} to read` : "",
        ` · ${plural(Number(progress["rows_produced"] ?? 0), "row")} so far`,
        h("progress", { "aria-label": "The statement runs" }),
      );
    }
    this.status.replaceChildren(...parts);
    this.drawActions();
  }

  // --- Views ------------------------------------------------------------------------------------

  private show(): void {
    clearTimeout(this.live);
    this.tabs.replaceChildren(
      ...TABS.map(([tab, label]) =>
        h(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${tab}`,
            "aria-selected": String(tab === this.tab),
            "aria-controls": "tab-content",
            tabindex: tab === this.tab ? "0" : "-1",
            on: {
              click: () => this.choose(tab),
              keydown: (event) => this.step(event),
            },
          },
          label,
        ),
      ),
    );
    this.content.setAttribute("aria-labelledby", `tab-${this.tab}`);
    this.drawActions();
    if (this.problem) this.content.replaceChildren(problemBox(this.problem));
    else if (this.tab === "plan") void this.showPlan();
    else if (!this.grid || !this.manifest) this.content.replaceChildren();
    else if (this.tab === "rows") {
      this.content.replaceChildren(this.grid.element);
      this.grid.draw();
    } else if (this.tab === "chart") void this.showChart();
    else {
      const text = JSON.stringify(this.manifest.receipt ?? {}, null, 2);
      this.content.replaceChildren(h("pre", { class: "text", tabindex: "0" }, text));
    }
  }

  private choose(tab: Tab): void {
    this.tab = tab;
    this.show();
    document.getElementById(`tab-${tab}`)?.focus();
  }

  private step(event: KeyboardEvent): void {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const now = TABS.findIndex(([tab]) => tab === this.tab);
    this.choose(TABS[(now + by + TABS.length) % TABS.length]![0]);
  }

  private drawActions(): void {
    const button = (label: string, title: string, click: () => void): HTMLElement =>
      h("button", { type: "button", title, on: { click } }, label);
    this.actions.replaceChildren(
      ...[
        this.isRunning && button("Cancel", "Ends the statement on the gateway (Esc)", () => void this.cancel()),
        this.grid && this.grid.rowCount > 0 && button("Download CSV", "All rows of the result", () => void this.download()),
        this.manifest && button("Copy link", "A link to this statement and its result", () => void this.link()),
      ].filter((found) => found instanceof HTMLElement),
    );
  }

  private async showChart(): Promise<void> {
    const { grid, manifest } = this;
    const rows = await grid!.sample(CHARTED).catch(() => []);
    if (grid === this.grid && this.tab === "chart") this.content.replaceChildren(chart(manifest!.columns, rows));
  }

  private async showPlan(times = LIVE_TIMES): Promise<void> {
    const { number, statement } = this;
    const isStill = (): boolean => number === this.number && this.tab === "plan" && statement === this.statement;
    if (!statement) return this.content.replaceChildren(h("p", { class: "muted" }, "Run a statement, or explain one, to see what it reads."));
    if (times === LIVE_TIMES) this.content.replaceChildren(h("p", { class: "muted" }, "Planning …"));
    try {
      const text = statement.replace(/^\s*EXPLAIN\s+(ANALYZE\s+)?(\([^)]*\)\s*)?/i, "");
      const [row] = await this.api.rows<Record<string, string>>(`EXPLAIN (FORMAT JSON)\n${text}`);
      const found = JSON.parse(Object.values(row ?? {})[0] ?? "{}") as Plan;
      if (!isStill()) return;
      const note = h("p", { class: "muted" }, times > 1 ? "As it would run now; looked at again every two seconds." : "As it would have run just now.");
      this.content.replaceChildren(plan(found), note);
      if (times > 1 && found.scans.length > 0) {
        this.live = window.setTimeout(() => void this.showPlan(document.hidden ? times : times - 1), LIVE_MS);
      }
    } catch (error) {
      if (isStill()) this.content.replaceChildren(problemBox(named(error)));
    }
  }

  private async download(): Promise<void> {
    const { grid, manifest } = this;
    if (!grid || !manifest) return;
    try {
      const blob = await grid.csv((share) => this.status.replaceChildren(`Fetching rows: ${Math.round(share * 100)} %`));
      const address = URL.createObjectURL(blob);
      h("a", { href: address, download: `${manifest.statement_id}.csv` }).click();
      URL.revokeObjectURL(address);
      this.told(manifest);
    } catch (error) {
      this.status.replaceChildren(`Not downloaded: ${named(error).message}`);
    }
  }

  private async link(): Promise<void> {
    await navigator.clipboard.writeText(location.href);
    this.status.replaceChildren("The link is on the clipboard; it works as long as the result is kept.");
  }
}

export function named(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  return { code: "INTERNAL_ERROR", message: error instanceof Error ? error.message : String(error), hint: "" };
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
