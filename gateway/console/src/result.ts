// A statement's life on the page: submitted, watched, canceled; its rows, chart, plan and receipt.

import { ENDED, OWN, type Api, type Manifest, type Problem } from "./api";
import { Chart, isDrawable, type Choices } from "./chart";
import { button, bytes, copy, count, h, plural, seconds } from "./dom";
import { Grid } from "./grid";
import { plan, type Plan } from "./pictures";
import { named, problemBox, within } from "./problems";
import { receipt } from "./receipt";
import { inText, type Part } from "./statements";

const POLL_S = 1;
const LIVE_MS = 2000;
const LIVE_TIMES = 60;
const CHARTED = 2000;
const REFRESH_S = [2, 5, 10, 30, 60];

export type Tab = "rows" | "chart" | "plan" | "receipt";
const TABS: [Tab, string][] = [
  ["rows", "Rows"],
  ["chart", "Chart"],
  ["plan", "Plan"],
  ["receipt", "Receipt"],
];

/** What a result tells the page. */
export interface Listener {
  /** It is being run, or has ended. */
  changed(): void;
  failed(problem: Problem): void;
}

export class Result {
  readonly element = h("div", { class: "result" });
  /** The id of the statement, once it was submitted; refreshes have others. */
  id: string | null = null;
  manifest: Manifest | null = null;
  problem: Problem | null = null;
  private readonly status = h("div", { class: "status", role: "status", "aria-live": "polite" });
  private readonly content = h("div", { class: "content", id: "tab-content", role: "tabpanel" });
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the result" });
  private readonly actions = h("div", { class: "actions" });
  private grid: Grid | null = null;
  private chart: HTMLElement | null = null;
  private choices: Choices = {};
  private isClosed = false;
  private isSkipped = false;
  /** What is said in the place of rows. */
  private note = "It has not been run.";
  private live = 0;
  private refresh = 0;
  private refreshS = 0;
  /** The statement of the last refresh, whose result nobody else has the address of. */
  private refreshed: Manifest | null = null;

  /**
   * @param part The statement.
   * @param text The text that it is a part of.
   * @param tab What is shown of it.
   */
  constructor(
    private readonly api: Api,
    readonly part: Part,
    private readonly text: string,
    public tab: Tab,
    private readonly listener: Listener,
  ) {
    this.element.append(h("div", { class: "bar" }, this.tabs, this.actions), this.status, this.content);
    this.show();
  }

  get isRunning(): boolean {
    return this.manifest !== null && !ENDED.has(this.manifest.state);
  }

  get isDone(): boolean {
    return this.problem !== null || (this.manifest !== null && ENDED.has(this.manifest.state));
  }

  /** A word or two about how it went, for a list of results. */
  get summary(): string {
    if (this.problem) return this.manifest?.state === "CANCELED" ? "canceled" : "failed";
    if (!this.manifest) return this.isSkipped ? "not run" : "waiting";
    if (!ENDED.has(this.manifest.state)) return "running";
    const { update_type: update, row_count: rows } = this.manifest;
    return update ? update.toLowerCase() : plural(rows, "row");
  }

  /** Runs the statement; returns whether it succeeded. */
  async run(): Promise<boolean> {
    this.status.replaceChildren("Submitting …");
    return this.follow(() => this.api.submit(this.part.text));
  }

  /** Shows a statement that was submitted before, here or elsewhere. */
  async open(id: string): Promise<boolean> {
    return this.follow(() => this.api.manifest(id));
  }

  /** Says why it is not run. */
  skip(why: string): void {
    this.isSkipped = true;
    this.note = why;
    this.status.replaceChildren(why);
    this.show();
    this.listener.changed();
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

  /** Ends what it does by itself; it is no longer shown. */
  close(): void {
    this.isClosed = true;
    clearTimeout(this.live);
    clearTimeout(this.refresh);
    if (this.refreshed) this.release(this.refreshed);
  }

  private async follow(begin: () => Promise<Manifest>): Promise<boolean> {
    this.note = "";
    this.show();
    try {
      let manifest = await begin();
      for (;;) {
        if (this.isClosed) return false;
        this.manifest = manifest;
        this.id = manifest.statement_id;
        this.listener.changed();
        this.tell(manifest);
        if (ENDED.has(manifest.state)) break;
        manifest = await this.api.manifest(manifest.statement_id, POLL_S);
      }
      if (manifest.error) this.failed(manifest.error);
      else await this.take(manifest);
      return !manifest.error;
    } catch (error) {
      if (!this.isClosed) this.failed(named(error));
      return false;
    }
  }

  private async take(manifest: Manifest): Promise<void> {
    this.api.remember(manifest);
    const chunks = manifest.chunks?.rows ?? [];
    const grid = new Grid(manifest.columns, chunks, (chunk) => this.api.chunk(manifest.statement_id, chunk));
    if (this.grid) {
      grid.resume(this.grid);
      await grid.begun; // what was there is shown until then
    }
    if (this.isClosed) return;
    this.manifest = manifest;
    this.grid = grid;
    this.chart = null;
    this.tell(manifest);
    this.listener.changed();
    this.show();
  }

  private failed(problem: Problem): void {
    this.problem = problem;
    this.refreshS = 0;
    this.api.forget(problem);
    const state = this.manifest?.state === "CANCELED" ? "canceled" : "failed";
    const took = this.manifest ? ` · ${seconds(this.manifest.elapsed_s)}` : "";
    this.status.replaceChildren(h("strong", {}, state), took);
    this.tab = "rows";
    this.show();
    this.listener.changed();
    this.listener.failed(problem);
  }

  // --- Refreshing -------------------------------------------------------------------------------

  private every(s: number): void {
    this.refreshS = s;
    clearTimeout(this.refresh);
    if (s > 0) void this.again();
  }

  /** Runs a query anew, and shows its rows in the place of those before. */
  private async again(): Promise<void> {
    if (this.isClosed || this.refreshS === 0) return;
    try {
      if (!document.hidden && this.element.offsetParent !== null) {
        let manifest = await this.api.submit(`${OWN}\n${this.part.text}`);
        while (!ENDED.has(manifest.state) && !this.isClosed) manifest = await this.api.manifest(manifest.statement_id, POLL_S);
        if (this.isClosed) return;
        if (manifest.error) return this.failed(within("", manifest.error));
        const before = this.refreshed;
        this.refreshed = manifest;
        await this.take(manifest);
        if (before) this.release(before);
      }
    } catch (error) {
      if (!this.isClosed) this.failed(within("", named(error)));
      return;
    }
    this.refresh = window.setTimeout(() => void this.again(), this.refreshS * 1000);
  }

  private release(manifest: Manifest): void {
    void this.api.release(manifest.statement_id).catch(() => undefined);
  }

  // --- Its state --------------------------------------------------------------------------------

  private tell(manifest: Manifest): void {
    const parts = ENDED.has(manifest.state) ? ended(manifest) : running(manifest);
    const state = h("strong", {}, manifest.state.toLowerCase());
    this.status.replaceChildren(state, ` · ${seconds(manifest.elapsed_s)}`, ...parts);
    this.element.classList.toggle("running", this.isRunning);
    this.drawActions();
  }

  // --- Views ------------------------------------------------------------------------------------

  show(): void {
    clearTimeout(this.live);
    this.tabs.replaceChildren(...TABS.map(([tab, label]) => this.tabButton(tab, label)));
    this.content.setAttribute("aria-labelledby", `tab-${this.tab}`);
    this.drawActions();
    if (this.problem) this.content.replaceChildren(this.problemBox(this.problem));
    else if (this.tab === "plan") void this.showPlan();
    else if (!this.grid || !this.manifest) this.content.replaceChildren(h("p", { class: "empty" }, this.note));
    else if (this.tab === "rows") this.showRows(this.grid);
    else if (this.tab === "chart") void this.showChart();
    else this.content.replaceChildren(receipt(this.manifest.receipt ?? {}, (token) => this.api.ask(`SET SESSION token = '${token}'`)));
  }

  /** A problem, with its position as the editor counts. */
  private problemBox(problem: Problem): HTMLElement {
    const { location: place } = problem;
    return problemBox({ ...problem, location: place ? inText(this.text, this.part, place) : null });
  }

  private tabButton(tab: Tab, label: string): HTMLElement {
    const isShown = tab === this.tab;
    return h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${tab}`,
        "aria-selected": String(isShown),
        "aria-controls": "tab-content",
        tabindex: isShown ? "0" : "-1",
        on: { click: () => this.choose(tab), keydown: (event) => this.step(event) },
      },
      label,
    );
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
    const hasRows = (this.grid?.rowCount ?? 0) > 0;
    if (this.actions.contains(document.activeElement) && !this.isRunning && this.refreshS > 0) return; // a list may be open
    this.actions.replaceChildren(
      ...[
        this.isRunning && button("Cancel", "Ends the statement on the gateway (Esc)", () => void this.cancel()),
        this.manifest?.is_read && this.isDone && !this.problem && this.refreshChoice(),
        hasRows && action("Copy", "Copy rows", "The selection, or all rows, for a spreadsheet", () => void this.copyRows()),
        hasRows && action("CSV", "Download CSV", "All rows of the result", () => void this.download("csv")),
        hasRows && action("Parquet", "Download Parquet", "All rows of the result, with their types", () => void this.download("parquet")),
        this.manifest && action("Link", "Copy link", "A link to this statement and its result", () => void this.link()),
      ].filter((made) => made instanceof HTMLElement),
    );
  }

  private refreshChoice(): HTMLElement {
    const option = (s: number): HTMLElement =>
      h("option", { value: s, selected: s === this.refreshS }, s === 0 ? "Refresh: off" : `every ${s} s`);
    const list = h(
      "select",
      { class: "refresh", "aria-label": "Refresh rows and chart", title: "Runs the query anew, as long as the page is visible" },
      ...[0, ...REFRESH_S].map(option),
    );
    list.addEventListener("change", () => this.every(Number(list.value)));
    return list;
  }

  private showRows(grid: Grid): void {
    const { update_type: update } = this.manifest!;
    const isEmpty = grid.rowCount === 0;
    const why = update ? "Done. This kind of statement returns no rows." : "No rows: the statement ran, and returned none.";
    const hadFocus = this.content.contains(document.activeElement);
    this.content.replaceChildren(...(isEmpty && update ? [] : [grid.element]), ...(isEmpty ? [h("p", { class: "empty" }, why)] : []));
    if (hadFocus) grid.element.focus();
    this.content.classList.toggle("without-rows", isEmpty);
    grid.draw();
    grid.scrollBack();
  }

  private async showChart(): Promise<void> {
    const { grid, manifest } = this;
    if (!this.chart) {
      const rows = await grid!.sample(CHARTED).catch(() => []);
      if (grid !== this.grid) return;
      this.chart = isDrawable(manifest!.columns, rows)
        ? new Chart(manifest!.columns, rows, grid!.rowCount, this.choices).element
        : h("p", { class: "empty" }, "A chart needs rows, and a column of numbers.");
    }
    if (this.tab !== "chart") return;
    const focused = this.content.contains(document.activeElement) ? document.activeElement : null;
    if (focused instanceof HTMLSelectElement) return; // a list may be open; the next refresh draws it
    this.content.replaceChildren(this.chart);
    if (focused) this.chart.querySelector<HTMLElement>(".plot")?.focus();
  }

  private async showPlan(times = LIVE_TIMES): Promise<void> {
    const { text: statement } = this.part;
    const isStill = (): boolean => !this.isClosed && this.tab === "plan";
    if (times === LIVE_TIMES) this.content.replaceChildren(h("p", { class: "muted" }, "Planning …"));
    const [head] = /^(\s*EXPLAIN\s+(ANALYZE\s+)?(\([^)]*\)\s*)?)?/i.exec(statement)!;
    const text = statement.slice(head.length);
    try {
      const [json] = await this.api.ask(`EXPLAIN (FORMAT JSON)\n${text}`);
      const explained = JSON.parse(typeof json === "string" ? json : "{}") as Plan;
      if (!isStill()) return;
      const note = h("p", { class: "muted" }, times > 1 ? "As it would run now; refreshed every two seconds." : "As it would have run just now.");
      this.content.replaceChildren(plan(explained), note);
      if (times > 1 && explained.scans.length > 0) {
        this.live = window.setTimeout(() => void this.showPlan(document.hidden ? times : times - 1), LIVE_MS);
      }
    } catch (error) {
      if (!isStill()) return;
      const problem = within(head, named(error), 2);
      this.content.replaceChildren(this.problemBox(problem));
      if (times === LIVE_TIMES) this.listener.failed(problem);
    }
  }

  // --- Taking it along --------------------------------------------------------------------------

  private async copyRows(): Promise<void> {
    try {
      this.status.replaceChildren(await this.grid!.copySelected());
    } catch (error) {
      this.status.replaceChildren(`Not copied: ${named(error).message}`);
    }
  }

  private async download(form: "csv" | "parquet"): Promise<void> {
    const { grid, manifest } = this;
    if (!grid || !manifest) return;
    const report = (share: number): void => this.status.replaceChildren(`Fetching rows: ${Math.round(share * 100)} %`);
    try {
      if (form === "parquet") this.status.replaceChildren("Fetching rows …");
      const blob = form === "csv" ? await grid.csv(report) : await this.api.file(manifest.statement_id, form);
      save(blob, `${manifest.statement_id}.${form}`);
      this.tell(manifest);
    } catch (error) {
      const { message, hint } = named(error);
      this.status.replaceChildren(`Not downloaded: ${message}. ${hint}`);
    }
  }

  private async link(): Promise<void> {
    const said = (await copy(location.href)) ? "The link is on the clipboard; it" : "The link is in the address bar: it";
    this.status.replaceChildren(`${said} works as long as the result is kept.`);
  }
}

function action(shown: string, name: string, title: string, click: () => void): HTMLElement {
  const made = button(shown, `${name}: ${title}`, click);
  made.setAttribute("aria-label", name);
  return made;
}

function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

type Said = (Node | string)[];

function badge(tier: string, text: string): HTMLElement {
  return h("span", { class: `badge ${tier}` }, text);
}

function ended(manifest: Manifest): Said {
  const { receipt: read = {}, update_type: update, update_count: updated } = manifest;
  const rows = plural(update ? (updated ?? 0) : manifest.row_count, "row");
  const parts: Said = [update ? ` · ${update}${typeof updated === "number" ? `, ${rows}` : ""}` : ` · ${rows}`];
  if (manifest.truncated) parts.push(" (cut off)");
  if (!read.engine) return parts;
  if (typeof read.rows_cold === "number" && typeof read.rows_hot === "number") {
    parts.push(" · ", badge("cold", `${count(read.rows_cold)} cold`), " ", badge("hot", `${count(read.rows_hot)} hot`), " read");
  }
  parts.push(` · ${read.engine}`);
  if (typeof read.bytes_cold === "number") parts.push(` · ${bytes(read.bytes_cold + (read.bytes_hot ?? 0))}`);
  return parts;
}

function running(manifest: Manifest): Said {
  const { progress } = manifest;
  const number = (name: string): number => Number(progress[name] ?? 0);
  const [cold, hot, size] = [number("rows_cold_estimated"), number("rows_hot_estimated"), number("bytes_estimated")];
  const reads: Said = [" · reads ", badge("cold", `${count(cold)} cold`), " ", badge("hot", `${count(hot)} hot`), size ? ` · ${bytes(size)} of files` : ""];
  return [
    ...(cold || hot ? reads : []),
    progress["engine"] ? ` · ${String(progress["engine"])}` : "",
    ` · ${plural(number("rows_produced"), "row")} so far`,
    h("progress", { "aria-label": "The statement is running" }),
  ];
}
