// What is run by everybody whose statements one may see, and what was run.

import { ENDED, OWN, type Api, type Summary } from "./api";
import { button, count, h, moment, plural, seconds } from "./dom";
import { named, problemBox } from "./problems";

const LIVE_MS = 2000;

/** A page of statements, as long as it is shown. */
abstract class Listing {
  readonly element: HTMLElement;
  protected readonly list = h("div", {}, h("p", { class: "muted" }, "…"));
  protected number = 0;
  private timer = 0;

  constructor(
    protected readonly api: Api,
    title: string,
    note: string,
  ) {
    this.element = h("section", { class: "page", "aria-label": title }, h("h1", {}, title), h("p", { class: "muted" }, note), this.list);
  }

  hide(): void {
    this.number++;
    clearTimeout(this.timer);
  }

  async show(): Promise<void> {
    this.hide();
    const number = this.number;
    try {
      const summaries = await this.api.statements();
      if (number !== this.number) return;
      this.draw(summaries);
    } catch (error) {
      if (number !== this.number) return;
      this.list.replaceChildren(problemBox(named(error)));
    }
    if (this.isLive) this.timer = window.setTimeout(() => void this.again(), LIVE_MS);
  }

  private async again(): Promise<void> {
    if (document.hidden) this.timer = window.setTimeout(() => void this.again(), LIVE_MS);
    else await this.show();
  }

  /** Whether it is refreshed by itself. */
  protected abstract readonly isLive: boolean;
  protected abstract draw(summaries: Summary[]): void;
}

export class HistoryPage extends Listing {
  protected readonly isLive = false;

  constructor(api: Api) {
    super(api, "History", "Statements that have been run, newest first. Times are in UTC.");
  }

  protected draw(summaries: Summary[]): void {
    const shown = summaries.filter((summary) => !summary.statement.startsWith(OWN.trim()));
    this.list.replaceChildren(
      shown.length === 0 ? h("p", { class: "empty" }, "Nothing has been run yet.") : h("ol", { class: "history" }, ...shown.map(entry)),
    );
  }
}

function entry(summary: Summary): HTMLElement {
  const { rows_cold: cold, rows_hot: hot, engine = "" } = summary.receipt;
  const rows = typeof cold === "number" && typeof hot === "number" ? ` · ${count(cold)} cold + ${count(hot)} hot` : "";
  const read = engine ? `${rows} · ${engine}` : "";
  const kind = summary.error ? "bad" : ENDED.has(summary.state) ? "" : "cold";
  return h(
    "li",
    {},
    h("a", { href: `#/q/${summary.statement_id}`, class: "statement" }, summary.statement),
    h(
      "div",
      { class: "muted" },
      h("span", { class: `badge ${kind}` }, summary.error?.code ?? summary.state.toLowerCase()),
      ` ${moment(summary.submitted_at * 1000)} · ${summary.user} · ${seconds(summary.elapsed_s)} · ${plural(summary.row_count, "row")}${read}`,
    ),
  );
}

export class RunningPage extends Listing {
  protected readonly isLive = true;
  private readonly rows = new Map<string, HTMLElement>();
  private readonly said = h("div", { "aria-live": "polite" });

  constructor(api: Api) {
    super(api, "Running", "Statements that wait or run on this gateway, of everybody whose statements you may see; refreshed every two seconds.");
    this.list.before(this.said);
  }

  protected draw(summaries: Summary[]): void {
    const shown = summaries.filter((summary) => !ENDED.has(summary.state) && !summary.statement.startsWith(OWN.trim()));
    const ids = new Set(shown.map((summary) => summary.statement_id));
    for (const id of this.rows.keys()) if (!ids.has(id)) this.rows.delete(id);
    const rows = shown.map((summary) => this.row(summary));
    if (rows.length === 0) return this.list.replaceChildren(h("p", { class: "empty" }, "Nothing is running."));
    const before = this.list.querySelector("ol");
    const isSame = before?.children.length === rows.length && rows.every((row, number) => before.children[number] === row);
    if (!isSame) this.list.replaceChildren(h("ol", { class: "history" }, ...rows)); // who is about to press a button keeps it
  }

  private row(summary: Summary): HTMLElement {
    const made = this.rows.get(summary.statement_id) ?? this.newRow(summary);
    this.rows.set(summary.statement_id, made);
    const rows = summary.row_count > 0 ? ` · ${plural(summary.row_count, "row")} so far` : "";
    made.querySelector(".facts-line")!.replaceChildren(
      h("span", { class: "badge cold" }, summary.state.toLowerCase()),
      ` ${summary.user} · since ${moment(summary.submitted_at * 1000)} · ${seconds(summary.elapsed_s)}${rows}`,
    );
    return made;
  }

  private newRow({ statement_id: id, statement, user }: Summary): HTMLElement {
    const kill = button("Kill", `Ends this statement of ${user} on the gateway`, () => void this.kill(id, kill), "danger");
    return h(
      "li",
      { class: "with-action" },
      h("div", {}, h("a", { href: `#/q/${id}`, class: "statement" }, statement), h("div", { class: "muted facts-line" })),
      kill,
    );
  }

  private async kill(id: string, pressed: HTMLButtonElement): Promise<void> {
    pressed.disabled = true;
    try {
      await this.api.cancel(id);
      this.said.replaceChildren(h("p", { class: "note" }, "Told to end."));
    } catch (error) {
      pressed.disabled = false;
      this.said.replaceChildren(problemBox(named(error)));
    }
    await this.show();
  }
}
