// A grid over a result of any length: it holds the visible rows, and some chunks around them.

import { cells, tabbed } from "./csv";
import { copy, count, h } from "./dom";
import { ApiError, isNumeric, type Column } from "./api";
import { viewRow, viewStatistics } from "./viewer";

const ROW_PX = 26;
const SPARE_ROWS = 12;
/** The width of a cell's edges, and of the gap before a column's type. */
const SPARE_CH = 4;
/** What a column takes of its row at most; it takes more where the row has room to spare. */
const WIDTH_CH_MAX = 48;
const CHUNKS_KEPT = 6;
/** Browsers do not support heights of many millions of pixels; longer results scroll in larger steps. */
const HEIGHT_PX_MAX = 8_000_000;
const CELL_SHOWN = 400;
const SAMPLED_ROWS = 200;
const COPIED_ROWS_MAX = 10_000;

type Rows = (string | null)[][];
export type Load = (chunk: number) => Promise<string>;

export class Grid {
  readonly element: HTMLElement;
  private readonly body: HTMLElement;
  private readonly space: HTMLElement;
  private readonly chunks = new Map<number, Rows | Promise<void>>();
  /** The chunks that could not be fetched, which nobody fetches again unasked, and why. */
  private readonly failed = new Map<number, string>();
  private readonly starts: number[] = [0];
  /** What each column would take to show all of its values. */
  private readonly widths: number[];
  private active = { row: 0, column: 0 };
  /** The other corner of what is selected. */
  private anchor = { row: 0, column: 0 };
  private first = 0;
  private drawn = 0;

  constructor(
    private readonly columns: Column[],
    chunkRows: number[],
    private readonly load: Load,
  ) {
    for (const rows of chunkRows) this.starts.push(this.starts.at(-1)! + rows);
    this.widths = columns.map((column) => column.name.length + column.type.length + SPARE_CH);
    this.space = h("div", { class: "grid-space" });
    this.body = h("div", { class: "grid-body" });
    this.element = h(
      "div",
      {
        class: "grid",
        role: "grid",
        tabindex: "0",
        "aria-label": "Rows of the result",
        "aria-rowcount": this.rowCount + 1,
        "aria-colcount": columns.length,
        "aria-multiselectable": "true",
        on: {
          scroll: () => this.scrolled(),
          keydown: (event) => this.pressed(event),
          copy: (event) => this.copied(event),
          click: (event) => this.clicked(event),
          dblclick: () => void this.view(),
        },
      },
      this.space,
      this.body,
    );
    new ResizeObserver(() => this.draw()).observe(this.element);
    void this.chunk(0);
  }

  /** Takes over what is visible and selected in a grid that had the place before. */
  resume(before: Grid): void {
    const last = Math.max(0, this.rowCount - 1);
    this.active = { ...before.active, row: Math.min(last, before.active.row) };
    this.anchor = { ...before.anchor, row: Math.min(last, before.anchor.row) };
    this.first = before.first;
  }

  /** Scrolls to where it was; browsers forget that of what was taken out of the page. */
  scrollBack(): void {
    if (this.first > 0) this.scrollTo(this.first);
  }

  /** Settled once the first visible rows are there. */
  get begun(): Promise<void> {
    const chunk = this.chunkOf(Math.min(this.first, Math.max(0, this.rowCount - 1)));
    this.chunk(chunk);
    const held = this.chunks.get(chunk);
    return held instanceof Promise ? held : Promise.resolve();
  }

  get rowCount(): number {
    return this.starts.at(-1)!;
  }

  private get height(): number {
    return Math.min(HEIGHT_PX_MAX, this.rowCount * ROW_PX);
  }

  private get visible(): number {
    return Math.max(1, Math.floor(this.element.clientHeight / ROW_PX) - 2);
  }

  private get lastFirst(): number {
    return Math.max(0, this.rowCount - this.visible);
  }

  private scrolled(): void {
    const range = this.height + 3 * ROW_PX - this.element.clientHeight;
    const share = range > 0 ? Math.min(1, this.element.scrollTop / range) : 0;
    const exact = this.rowCount * ROW_PX <= HEIGHT_PX_MAX;
    this.first = exact
      ? Math.min(this.lastFirst, Math.floor(this.element.scrollTop / ROW_PX))
      : Math.round(share * this.lastFirst);
    this.draw();
  }

  private scrollTo(first: number): void {
    this.first = Math.max(0, Math.min(this.lastFirst, first));
    const range = this.height + 3 * ROW_PX - this.element.clientHeight;
    const exact = this.rowCount * ROW_PX <= HEIGHT_PX_MAX;
    this.element.scrollTop = exact ? this.first * ROW_PX : (this.first / Math.max(1, this.lastFirst)) * range;
    this.draw();
  }

  private chunkOf(row: number): number {
    let low = 0;
    let high = this.starts.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle]! <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The rows of a chunk, once they are loaded; the oldest other chunks are dropped. */
  private chunk(number: number): Rows | null {
    const held = this.chunks.get(number);
    if (held instanceof Promise || this.failed.has(number)) return null;
    if (held) {
      this.chunks.delete(number);
      this.chunks.set(number, held);
      return held;
    }
    const coming = this.load(number)
      .then((text) => {
        const rows = withoutNames(cells(text), number);
        this.chunks.set(number, rows);
        if (this.drawn === 0 || number === 0) this.measure(rows);
      })
      .catch((error: unknown) => {
        this.chunks.delete(number);
        this.failed.set(number, said(error));
      })
      .then(() => this.draw());
    this.chunks.set(number, coming);
    for (const other of this.chunks.keys()) {
      if (this.chunks.size <= CHUNKS_KEPT) break;
      if (other !== number) this.chunks.delete(other);
    }
    return null;
  }

  private measure(rows: Rows): void {
    for (const row of rows.slice(0, SAMPLED_ROWS)) {
      row.forEach((value, column) => {
        const shown = Math.min(CELL_SHOWN, (value ?? "NULL").length);
        this.widths[column] = Math.max(this.widths[column] ?? 6, shown + SPARE_CH);
      });
    }
  }

  private row(number: number): (string | null)[] | null {
    const chunk = this.chunkOf(number);
    return this.chunk(chunk)?.[number - this.starts[chunk]!] ?? null;
  }

  draw(): void {
    this.drawn++;
    const numbers = count(this.rowCount).length + 3;
    const least = this.widths.map((width) => Math.min(WIDTH_CH_MAX, width));
    const template = `${numbers}ch ${this.widths
      .map((width, column) => `minmax(${least[column]}ch, ${width}ch)`)
      .join(" ")}`;
    this.body.style.width = `${least.reduce((sum, width) => sum + width, numbers)}ch`;
    this.space.style.height = `${this.height + 3 * ROW_PX}px`;
    const last = Math.min(this.rowCount, this.first + this.visible + SPARE_ROWS);
    const lines: HTMLElement[] = [this.head(template)];
    for (let number = this.first; number < last; number++) lines.push(this.line(number, template));
    const [failure] = this.failed.values();
    if (failure) lines.push(this.failure(failure));
    this.body.replaceChildren(...lines);
    this.element.setAttribute("aria-activedescendant", "active-cell");
  }

  private failure(why: string): HTMLElement {
    const again = (): void => {
      this.failed.clear();
      this.draw();
      this.element.focus();
    };
    return h(
      "div",
      { class: "grid-failure", role: "alert" },
      `Rows could not be fetched: ${why} `,
      h("button", { type: "button", on: { click: again } }, "Try again"),
    );
  }

  private head(template: string): HTMLElement {
    const line = h("div", { class: "grid-row grid-head", role: "row", "aria-rowindex": 1 });
    line.style.gridTemplateColumns = template;
    line.append(h("div", { class: "grid-number", role: "columnheader" }, "#"));
    this.columns.forEach((column, at) => {
      const title = `${column.name} ${column.type}\nA click shows statistics of its values.`;
      line.append(
        h(
          "div",
          { class: "grid-name", role: "columnheader", title, "data-statistics": at },
          column.name,
          h("span", { class: "type" }, column.type),
        ),
      );
    });
    return line;
  }

  private line(number: number, template: string): HTMLElement {
    const line = h("div", { class: "grid-row", role: "row", "aria-rowindex": number + 2 });
    line.style.gridTemplateColumns = template;
    line.append(h("div", { class: "grid-number", role: "rowheader" }, count(number + 1)));
    const values = this.row(number);
    const area = this.area;
    this.columns.forEach((column, at) => {
      const value = values ? (values[at] ?? null) : undefined;
      const isActive = number === this.active.row && at === this.active.column;
      const isSelected = number >= area.top && number <= area.bottom && at >= area.left && at <= area.right;
      const shown = value === undefined ? "…" : value === null ? "NULL" : value.slice(0, CELL_SHOWN);
      const kind = value === null ? "null" : isNumeric(column) ? "number" : "";
      line.append(
        h(
          "div",
          {
            class: `grid-cell ${kind} ${isActive ? "active" : ""} ${isSelected && area.count > 1 ? "selected" : ""}`,
            "aria-selected": String(isSelected),
            role: "gridcell",
            id: isActive ? "active-cell" : undefined,
            "aria-colindex": at + 1,
            "data-row": number,
            "data-column": at,
            title: value && value.length > 20 ? value.slice(0, 4000) : undefined,
          },
          shown,
        ),
      );
    });
    return line;
  }

  /** What is selected. */
  private get area(): { top: number; bottom: number; left: number; right: number; count: number } {
    const { active, anchor } = this;
    const [top, bottom] = [Math.min(active.row, anchor.row), Math.max(active.row, anchor.row)];
    const [left, right] = [Math.min(active.column, anchor.column), Math.max(active.column, anchor.column)];
    return { top, bottom, left, right, count: (bottom - top + 1) * (right - left + 1) };
  }

  /** Shows the row of the current cell in full. */
  private async view(): Promise<void> {
    const { row, column } = this.active;
    const [values] = await this.rowsBetween(row, row).catch(() => []);
    if (values) viewRow(this.columns, values, row, column, () => void this.viewStatistics(column));
  }

  private async viewStatistics(column: number): Promise<void> {
    const rows = await this.rowsBetween(0, Math.min(this.rowCount, COPIED_ROWS_MAX) - 1).catch(() => []);
    viewStatistics(this.columns[column]!, rows.map((row) => row[column] ?? null), this.rowCount);
  }

  private clicked(event: MouseEvent): void {
    const header = (event.target as HTMLElement).closest<HTMLElement>("[data-statistics]");
    if (header && !getSelection()?.toString()) return void this.viewStatistics(Number(header.dataset["statistics"]));
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
    if (!found || (getSelection()?.toString() && !event.shiftKey)) return;
    getSelection()?.removeAllRanges();
    this.active = { row: Number(found.dataset["row"]), column: Number(found.dataset["column"]) };
    if (!event.shiftKey) this.anchor = this.active;
    this.draw();
  }

  private pressed(event: KeyboardEvent): void {
    if (event.altKey || event.metaKey) return;
    if (event.key === "Enter" && event.target === this.element && this.rowCount > 0) {
      event.preventDefault();
      return void (event.shiftKey ? this.viewStatistics(this.active.column) : this.view());
    }
    if (event.ctrlKey && event.key === "a") {
      event.preventDefault();
      this.anchor = { row: 0, column: 0 };
      this.active = { row: Math.max(0, this.rowCount - 1), column: this.columns.length - 1 };
      return this.draw();
    }
    const page = this.visible - 1;
    const { row, column } = this.active;
    const moves: Record<string, [number, number]> = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      PageDown: [row + page, column],
      PageUp: [row - page, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0],
      End: event.ctrlKey ? [this.rowCount - 1, this.columns.length - 1] : [row, this.columns.length - 1],
    };
    const to = moves[event.key];
    if (!to || this.rowCount === 0 || (event.ctrlKey && !["Home", "End"].includes(event.key))) return;
    event.preventDefault();
    this.active = {
      row: Math.max(0, Math.min(this.rowCount - 1, to[0])),
      column: Math.max(0, Math.min(this.columns.length - 1, to[1])),
    };
    if (!event.shiftKey) this.anchor = this.active;
    if (this.active.row < this.first) this.scrollTo(this.active.row);
    else if (this.active.row >= this.first + this.visible) this.scrollTo(this.active.row - this.visible + 1);
    else this.draw();
    this.body.querySelector("#active-cell")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  private copied(event: ClipboardEvent): void {
    if (getSelection()?.toString() || this.rowCount === 0) return;
    event.preventDefault();
    if (this.area.count > 1) return void this.copySelected();
    const { row, column } = this.active;
    const known = this.row(row);
    if (known) event.clipboardData?.setData("text/plain", known[column] ?? "");
    else void this.rowsBetween(row, row).then(([loaded]) => loaded && copy(loaded[column] ?? ""));
  }

  /** Copies the selection, or all rows if it is a single cell; returns a message. */
  async copySelected(): Promise<string> {
    const selected = this.area;
    const isAll = selected.count === 1;
    const area = isAll ? { top: 0, bottom: this.rowCount - 1, left: 0, right: this.columns.length - 1 } : selected;
    const last = Math.min(area.bottom, area.top + COPIED_ROWS_MAX - 1);
    const rows = (await this.rowsBetween(area.top, last)).map((row) => row.slice(area.left, area.right + 1));
    const names = this.columns.slice(area.left, area.right + 1).map((column) => column.name);
    if (!(await copy(tabbed(isAll ? [names, ...rows] : rows)))) return "The browser does not allow the page to copy.";
    const cut = last < area.bottom ? `, the first of ${count(area.bottom - area.top + 1)}` : "";
    return `Copied ${count(rows.length)} ${rows.length === 1 ? "row" : "rows"} of ${count(names.length)} ${names.length === 1 ? "column" : "columns"}${cut}.`;
  }

  private async rowsBetween(first: number, last: number): Promise<Rows> {
    const found: Rows = [];
    for (let number = this.chunkOf(first); number + 1 < this.starts.length && this.starts[number]! <= last; number++) {
      const start = this.starts[number]!;
      const known = this.chunks.get(number);
      const rows = Array.isArray(known) ? known : withoutNames(cells(await this.load(number)), number);
      found.push(...rows.slice(Math.max(0, first - start), last - start + 1));
    }
    return found;
  }

  /** All of it as CSV, a chunk at a time. */
  async csv(progress: (share: number) => void): Promise<Blob> {
    const parts: string[] = [];
    for (let number = 0; number + 1 < this.starts.length; number++) {
      parts.push(await this.load(number));
      progress((number + 1) / (this.starts.length - 1));
    }
    return new Blob(parts, { type: "text/csv" });
  }

  /** The first rows, for a chart. */
  async sample(most: number): Promise<Rows> {
    const text = await this.load(0);
    return withoutNames(cells(text), 0).slice(0, most);
  }
}

function said(error: unknown): string {
  if (error instanceof ApiError) return [`${error.message}.`, error.problem.hint].join(" ");
  return error instanceof Error ? error.message : String(error);
}

/** The first chunk begins with a line of names. */
function withoutNames(rows: Rows, chunk: number): Rows {
  return chunk === 0 ? rows.slice(1) : rows;
}
