// A statement's life on the page: submitted, watched, canceled; its rows, chart, plan and receipt.

import { Api, ApiError, ENDED, type Manifest, type Problem } from "./api";
import { Chart, isDrawable } from "./chart";
import { bytes, copy, count, h, plural, seconds } from "./dom";
import { Grid } from "./grid";
import { plan, type Plan } from "./pictures";
import { receipt } from "./receipt";
import type { Part } from "./statements";

const POLL_S = 1;
const LIVE_MS = 2000;
const LIVE_TIMES = 60;
const CHARTED = 2000;

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
  private chart: HTMLElement | null = null;
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
    this.manifest = this.grid = this.chart = this.problem = null;
    this.status.replaceChildren();
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
    const state = this.manifest?.state === "CANCELED" ? "canceled" : "failed";
    const took = this.manifest ? ` · ${seconds(this.manifest.elapsed_s)}` : "";
    this.status.replaceChildren(h("strong", {}, state), took);
    this.tab = "rows";
    this.show();
    this.onProblem(problem);
  }

  private told(manifest: Manifest): void {
    const { receipt: read = {}, progress } = manifest;
    const parts: (Node | string)[] = [h("strong", {}, manifest.state.toLowerCase()), ` · ${seconds(manifest.elapsed_s)}`];
    if (ENDED.has(manifest.state)) {
      if (manifest.update_type) {
        const rows = manifest.update_count === null || manifest.update_count === undefined ? "" : `, ${plural(manifest.update_count, "row")}`;
        parts.push(` · ${manifest.update_type}${rows}`);
      } else parts.push(` · ${plural(manifest.row_count, "row")}`);
      if (manifest.truncated) parts.push(" (cut off)");
      if (read.engine) {
        if (typeof read.rows_cold === "number" && typeof read.rows_hot === "number") {
          parts.push(
            " · ",
            h("span", { class: "badge cold" }, `${count(read.rows_cold)} cold`),
            " ",
            h("span", { class: "badge hot" }, `${count(read.rows_hot)} hot`),
            " read",
          );
        }
        parts.push(` · ${read.engine}`);
        if (typeof read.bytes_cold === "number") parts.push(` · ${bytes(read.bytes_cold + (read.bytes_hot ?? 0))}`);
      }
    } else {
      const [cold, hot, size] = ["rows_cold_estimated", "rows_hot_estimated", "bytes_estimated"].map((name) => Number(progress[name] ?? 0));
      if (cold || hot) {
        const badge = (kind: string, rows: number): HTMLElement => h("span", { class: `badge ${kind}` }, `${count(rows)} ${kind}`);
        parts.push(" · reads ", badge("cold", cold!), " ", badge("hot", hot!), size ? ` · ${bytes(size)} of files` : "");
      }
      parts.push(
        progress["engine"] ? ` · ${String(progress["engine"])}` : "",
        ` · ${plural(Number(progress["rows_produced"] ?? 0), "row")} so far`,
        h("progress", { "aria-label": "The statement is running" }),
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
    else if (!this.grid || !this.manifest) this.content.replaceChildren(...(this.statement ? [] : [welcome()]));
    else if (this.tab === "rows") {
      this.content.replaceChildren(this.grid.element);
      this.grid.draw();
    } else if (this.tab === "chart") void this.showChart();
    else this.content.replaceChildren(receipt(this.manifest.receipt ?? {}));
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
        this.grid && this.grid.rowCount > 0 && button("Copy rows", "The selection, or all rows, for a spreadsheet", () => void this.copyRows()),
        this.grid && this.grid.rowCount > 0 && button("Download CSV", "All rows of the result", () => void this.download()),
        this.manifest && button("Copy link", "A link to this statement and its result", () => void this.link()),
      ].filter((found) => found instanceof HTMLElement),
    );
  }

  private async showChart(): Promise<void> {
    const { grid, manifest } = this;
    if (!this.chart) {
      const rows = await grid!.sample(CHARTED).catch(() => []);
      if (grid !== this.grid) return;
      this.chart = isDrawable(manifest!.columns, rows)
        ? new Chart(manifest!.columns, rows, grid!.rowCount).element
        : h("p", { class: "muted" }, "A chart needs rows, and a column of numbers.");
    }
    if (this.tab === "chart") this.content.replaceChildren(this.chart);
  }

  private async copyRows(): Promise<void> {
    try {
      this.status.replaceChildren(await this.grid!.copySelected());
    } catch (error) {
      this.status.replaceChildren(`Not copied: ${named(error).message}`);
    }
  }

  private async showPlan(times = LIVE_TIMES): Promise<void> {
    const { number, statement } = this;
    const isStill = (): boolean => number === this.number && this.tab === "plan" && statement === this.statement;
    if (!statement) return this.content.replaceChildren(h("p", { class: "muted" }, "Run a statement, or explain one, to see what it reads."));
    if (times === LIVE_TIMES) this.content.replaceChildren(h("p", { class: "muted" }, "Planning …"));
    const [head] = /^(\s*EXPLAIN\s+(ANALYZE\s+)?(\([^)]*\)\s*)?)?/i.exec(statement)!;
    const text = statement.slice(head.length);
    try {
      const [row] = await this.api.rows<Record<string, string>>(`EXPLAIN (FORMAT JSON)\n${text}`);
      const found = JSON.parse(Object.values(row ?? {})[0] ?? "{}") as Plan;
      if (!isStill()) return;
      const note = h("p", { class: "muted" }, times > 1 ? "As it would run now; refreshed every two seconds." : "As it would have run just now.");
      this.content.replaceChildren(plan(found), note);
      if (times > 1 && found.scans.length > 0) {
        this.live = window.setTimeout(() => void this.showPlan(document.hidden ? times : times - 1), LIVE_MS);
      }
    } catch (error) {
      if (!isStill()) return;
      const problem = within(head, named(error));
      this.content.replaceChildren(problemBox(problem));
      if (times === LIVE_TIMES) this.onProblem(problem);
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
    const said = (await copy(location.href)) ? "The link is on the clipboard; it" : "The link is in the address bar: it";
    this.status.replaceChildren(`${said} works as long as the result is kept.`);
  }
}

/** What is shown before anything has been run. */
function welcome(): HTMLElement {
  const key = (keys: string, does: string): HTMLElement => h("div", {}, h("dt", {}, ...keys.split("+").map((each) => h("kbd", {}, each))), h("dd", {}, does));
  return h(
    "div",
    { class: "welcome" },
    h("p", {}, "Rows appear here, with what they were read from: ", h("span", { class: "badge cold" }, "cold"), " files and the ", h("span", { class: "badge hot" }, "hot"), " log."),
    h(
      "dl",
      {},
      key("Ctrl+Enter", "run the statement at the cursor"),
      key("Ctrl+Shift+Enter", "see what it reads, and where"),
      key("Ctrl+Space", "complete a name"),
      key("Esc", "cancel it on the gateway"),
    ),
  );
}

export function named(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  return { code: "INTERNAL_ERROR", message: error instanceof Error ? error.message : String(error), hint: "" };
}

/** A problem of a statement that was sent below a line of the page's own, and without its head. */
function within(head: string, problem: Problem): Problem {
  const place = problem.location;
  if (!place) return problem;
  const skipped = head.split("\n");
  const line = place.line - 1;
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
