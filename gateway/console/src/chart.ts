// A result as a chart: a column of numbers over another column, a series for each value of a third.

import { isNumeric, type Column } from "./api";
import { count, h, plural, svg } from "./dom";
import { exact, instant, moments, short, ticks } from "./scales";

const HEIGHT_MIN = 240;
const HEIGHT_MAX = 560;
/** What surrounds the picture in the part of the page that shows it. */
const AROUND_PX = 150;
const LEFT = 64;
const RIGHT = 20;
const TOP = 12;
const BOTTOM = 44;
const LABEL_CHARACTERS = 14;
const DOTS_MAX = 200;
const SERIES_MAX = 8;
const NONE = -1;

const KIND_NAMES = { bar: "Bars", stacked: "Stacked bars", line: "Line", scatter: "Points" };
type Kind = keyof typeof KIND_NAMES;

interface Point {
  name: string;
  /** Where it is along the axis: a number, a time, or the number of its category. */
  x: number;
  y: number;
  /** The number of its series. */
  series: number;
}

type Rows = (string | null)[][];

/** What somebody has chosen, by the names of columns: it outlives the rows. */
export interface Choices {
  kind?: Kind;
  of?: string;
  over?: string;
  by?: string;
  hidden?: Set<string>;
}

function isTime(column: Column | undefined): boolean {
  return /^(timestamp|date)/.test(column?.type ?? "");
}

function isScale(column: Column | undefined): boolean {
  return column !== undefined && (isTime(column) || isNumeric(column));
}

function isGroup(column: Column): boolean {
  return !isScale(column) && !/^(array|map|row|json|varbinary)/.test(column.type);
}

/** Whether a result has anything to draw. */
export function isDrawable(columns: Column[], rows: Rows): boolean {
  return rows.length > 0 && columns.some(isNumeric);
}

export class Chart {
  readonly element: HTMLElement;
  private readonly plot = h("div", { class: "plot", tabindex: "0", role: "slider" });
  private readonly said = h("p", { class: "muted", "aria-live": "polite" });
  private readonly notes = h("div", { class: "notes" });
  private readonly legend = h("div", { class: "series", role: "group", "aria-label": "Series" });
  private kind: Kind;
  private over: number;
  private of: number;
  private by: number;
  private points: Point[] = [];
  /** The names of the series that are drawn or could be. */
  private series: string[] = [];
  private categories: string[] = [];
  private isAmbiguous = false;
  private at = 0;

  /**
   * @param rows The first rows.
   * @param total How many rows there are.
   * @param choices What was chosen before, which later choices go into.
   */
  constructor(
    private readonly columns: Column[],
    private readonly rows: Rows,
    private readonly total: number,
    private readonly choices: Choices,
  ) {
    const named = (name: string | undefined): number => columns.findIndex((column) => column.name === name);
    const chosen = named(choices.of);
    this.of = chosen >= 0 ? chosen : columns.findIndex((column, at) => at > 0 && isNumeric(column));
    if (this.of < 0) this.of = columns.findIndex(isNumeric);
    this.over = choices.over === undefined ? this.usualAxis() : named(choices.over);
    const along = columns[this.over];
    this.kind = choices.kind ?? (isTime(along) ? "line" : isScale(along) ? "scatter" : "bar");
    this.by = choices.by === undefined ? this.usualSeries() : named(choices.by);
    this.plot.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.element = h("figure", { class: "chart" }, this.choosers(), this.legend, this.plot, h("figcaption", {}, this.said, this.notes));
    this.changed();
  }

  private usualAxis(): number {
    const time = this.columns.findIndex((column, at) => at !== this.of && isTime(column));
    return time >= 0 ? time : this.columns.findIndex((_, at) => at !== this.of);
  }

  /** A column whose values tell rows at the same place of the axis apart. */
  private usualSeries(): number {
    if (new Set(this.rows.map((row) => row[this.over])).size === this.rows.length) return NONE;
    return this.columns.findIndex((column, at) => {
      const values = new Set(this.rows.map((row) => row[at])).size;
      return at !== this.over && at !== this.of && isGroup(column) && values > 1 && values < this.rows.length;
    });
  }

  private choosers(): HTMLElement {
    const { columns, choices } = this;
    const named = (at: number): [string, string] => [String(at), columns[at]!.name];
    const all = columns.map((_, at) => at);
    const kinds = Object.entries(KIND_NAMES);
    return h(
      "div",
      { class: "choices" },
      choice("Chart", "Kind of chart", kinds, this.kind, (value) => {
        choices.kind = this.kind = value as Kind;
        this.changed();
      }),
      choice("of", "Column that is drawn", all.filter((at) => isNumeric(columns[at]!)).map(named), String(this.of), (value) => {
        this.of = Number(value);
        choices.of = columns[this.of]!.name;
        this.changed();
      }),
      choice("over", "Column along the axis", [[String(NONE), "row number"], ...all.map(named)], String(this.over), (value) => {
        this.over = Number(value);
        choices.over = columns[this.over]?.name ?? "";
        this.changed();
      }),
      choice("by", "Column of the series", [[String(NONE), "nothing"], ...all.map(named)], String(this.by), (value) => {
        this.by = Number(value);
        choices.by = columns[this.by]?.name ?? "";
        delete choices.hidden;
        this.changed();
      }),
    );
  }

  // --- From rows to points ----------------------------------------------------------------------

  private changed(): void {
    const along = this.columns[this.over];
    const isCategory = this.isBars || !isScale(along);
    const drawable = this.rows.flatMap((row, number) => {
      const name = along ? (row[this.over] ?? "NULL") : String(number + 1);
      const y = row[this.of] === null ? NaN : Number(row[this.of]);
      const x = isCategory ? 0 : isTime(along) ? instant(name) : Number(name);
      const series = this.by === NONE ? "" : (row[this.by] ?? "NULL");
      return Number.isFinite(x) && Number.isFinite(y) ? [{ name, x, y, series }] : [];
    });
    const sizes = new Map<string, number>();
    for (const { series, y } of drawable) sizes.set(series, (sizes.get(series) ?? 0) + Math.abs(y));
    const largest = new Set([...sizes].sort((one, other) => other[1] - one[1]).slice(0, SERIES_MAX).map(([name]) => name));
    this.series = [...sizes.keys()].filter((name) => largest.has(name));
    const numbers = new Map(this.series.map((name, number) => [name, number]));
    this.categories = [];
    this.isAmbiguous = false;
    const places = new Map<string, number>();
    const met = new Map<string, number>();
    this.points = drawable.flatMap(({ name, x, y, series }) => {
      const number = numbers.get(series);
      if (number === undefined) return [];
      const pair = JSON.stringify([name, series]);
      const before = met.get(pair) ?? 0;
      met.set(pair, before + 1);
      if (before > 0) this.isAmbiguous = true;
      if (!isCategory) return [{ name, x, y, series: number }];
      // a second row of the same name and series has a place of its own
      const key = JSON.stringify([name, before]);
      if (!places.has(key)) places.set(key, this.categories.push(name) - 1);
      return [{ name, x: places.get(key)!, y, series: number }];
    });
    this.points.sort((one, other) => one.x - other.x || one.series - other.series);
    this.tell(drawable.length, sizes.size);
  }

  private tell(drawable: number, allSeries: number): void {
    const along = this.columns[this.over];
    const by = this.columns[this.by];
    this.at = 0;
    const label = `${this.columns[this.of]!.name} over ${along?.name ?? "row number"}${by ? ` by ${by.name}` : ""}`;
    this.plot.setAttribute("aria-label", `${label}: ${plural(this.points.length, "point")}`);
    this.plot.setAttribute("aria-valuemin", "1");
    this.plot.setAttribute("aria-valuemax", String(Math.max(1, this.points.length)));
    this.said.replaceChildren(`${label}. Use the left and right arrow keys to move between points.`);
    const both = `the same ${along?.name ?? "row number"}${by ? ` and ${by.name}` : ""}`;
    const notes = [
      this.rows.length < this.total && `Of ${plural(this.total, "row")}, the first ${count(this.rows.length)} are drawn.`,
      drawable < this.rows.length && `${plural(this.rows.length - drawable, "row")} without a number, or without a place on the axis, ${this.rows.length - drawable === 1 ? "is" : "are"} not drawn.`,
      allSeries > SERIES_MAX && `Of ${count(allSeries)} series, the ${SERIES_MAX} largest are drawn.`,
      this.isAmbiguous && `Several rows have ${both}: each is drawn by itself${this.kind === "line" ? ", and no line connects them" : ""}. Group by these columns, or choose a column of the series.`,
    ].filter((note) => typeof note === "string");
    this.notes.replaceChildren(...notes.map((note) => h("p", {}, note)));
    this.drawLegend();
    this.mark();
    this.draw();
  }

  private get isBars(): boolean {
    return this.kind === "bar" || this.kind === "stacked";
  }

  private isHidden(series: number): boolean {
    return this.choices.hidden?.has(this.series[series]!) ?? false;
  }

  private get visible(): Point[] {
    return this.points.filter((point) => !this.isHidden(point.series));
  }

  private drawLegend(): void {
    this.legend.hidden = this.by === NONE;
    this.legend.replaceChildren(
      ...this.series.map((name, number) => {
        const toggle = (): void => {
          const hidden = (this.choices.hidden ??= new Set());
          if (!hidden.delete(name)) hidden.add(name);
          this.at = 0;
          shown.setAttribute("aria-pressed", String(!this.isHidden(number)));
          this.mark();
          this.draw();
        };
        const look = (isOver: boolean) => (): void => void (this.plot.dataset["look"] = isOver ? String(number) : "");
        const shown = h(
          "button",
          { type: "button", title: name, "aria-pressed": String(!this.isHidden(number)), on: { click: toggle, mouseenter: look(true), mouseleave: look(false) } },
          h("span", { class: `key s${number}`, "aria-hidden": "true" }),
          cut(name, 2 * LABEL_CHARACTERS),
        );
        return shown;
      }),
    );
  }

  // --- Reading it out ---------------------------------------------------------------------------

  private pressed(event: KeyboardEvent): void {
    const last = this.visible.length - 1;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.look(Math.max(0, Math.min(last, to)));
  }

  private look(at: number): void {
    this.at = at;
    this.mark();
    this.draw();
    const point = this.visible[at];
    if (point) this.said.replaceChildren(h("strong", {}, this.named(point)), `: ${exact(point.y)}`);
  }

  private named(point: Point): string {
    return this.by === NONE ? point.name : `${point.name} · ${this.series[point.series]}`;
  }

  private mark(): void {
    const point = this.visible[this.at];
    this.plot.setAttribute("aria-valuenow", String(this.at + 1));
    this.plot.setAttribute("aria-valuetext", point ? `${this.named(point)}: ${exact(point.y)}` : "nothing");
  }

  // --- Drawing ----------------------------------------------------------------------------------

  private draw(): void {
    const points = this.visible;
    if (points.length === 0) {
      const why = this.points.length > 0 ? "All series are switched off." : "No row has a number in this column and a value in the other.";
      this.plot.replaceChildren(h("p", { class: "empty" }, why));
      return;
    }
    const width = Math.max(260, this.plot.clientWidth);
    const height = Math.max(HEIGHT_MIN, Math.min(HEIGHT_MAX, (this.element.parentElement?.clientHeight ?? 0) - AROUND_PX));
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    const values = this.kind === "stacked" ? ends(points) : points.map((point) => point.y);
    const ys = ticks(this.kind === "scatter" ? null : 0, values);
    const [bottom, top] = [ys[0]!, ys.at(-1)!];
    const y = (value: number): number => TOP + ((top - value) / (top - bottom || 1)) * (height - TOP - BOTTOM);
    for (const tick of ys) {
      const at = y(tick);
      picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, class: tick === 0 ? "rule zero" : "rule" }), text(short(tick), LEFT - 8, at + 4, "end"));
    }
    const place = this.scale(width);
    this.axis(picture, width, height, place);
    if (this.isBars) this.bars(picture, width, place, y);
    else this.dots(picture, place, y);
    this.plot.replaceChildren(picture);
  }

  /** From a point to pixels along the axis. */
  private scale(width: number): (x: number) => number {
    const room = width - LEFT - RIGHT;
    if (this.categories.length > 0) return (x) => LEFT + ((x + 0.5) * room) / this.categories.length;
    const [low, high] = this.bounds();
    return (x) => LEFT + 8 + ((x - low) / (high - low || 1)) * (room - 16);
  }

  private bounds(): [number, number] {
    const xs = this.points.map((point) => point.x);
    return [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))];
  }

  private axis(picture: SVGElement, width: number, height: number, place: (x: number) => number): void {
    const along = this.columns[this.over];
    const base = height - BOTTOM + 18;
    const fits = Math.max(1, Math.floor((width - LEFT - RIGHT) / 110));
    const label = (said: string, x: number): void => {
      const anchor = x > width - 46 ? "end" : "middle";
      picture.append(text(said, anchor === "end" ? width - 2 : x, base, anchor));
    };
    if (this.categories.length > 0) {
      const every = Math.ceil(this.categories.length / Math.min(fits * 1.3, 16));
      this.categories.forEach((name, number) => {
        if (number % every === 0) label(cut(name, LABEL_CHARACTERS), place(number));
      });
    } else {
      const [low, high] = this.bounds();
      const round = ticks(null, [low, high]).filter((x) => x >= low && x <= high);
      const marks = isTime(along) ? moments(low, high, fits) : { ticks: round.length > 0 ? round : [low], label: short };
      for (const x of marks.ticks) label(marks.label(x), place(x));
    }
    picture.append(text(along?.name ?? "row", LEFT + (width - LEFT - RIGHT) / 2, height - 6, "middle"));
  }

  private bars(picture: SVGElement, width: number, place: (x: number) => number, y: (value: number) => number): void {
    const each = (width - LEFT - RIGHT) / this.categories.length;
    const shown = this.series.flatMap((_, number) => (this.isHidden(number) ? [] : [number]));
    const slots = this.kind === "stacked" ? 1 : Math.max(1, shown.length);
    const group = Math.min(72 * slots, Math.max(0.5, each * 0.8));
    const thick = group / slots;
    const heights = new Map<string, number>();
    this.visible.forEach((point, number) => {
      const stack = `${point.x} ${point.y < 0}`;
      const from = this.kind === "stacked" ? (heights.get(stack) ?? 0) : 0;
      heights.set(stack, from + point.y);
      const [one, other] = [y(from), y(from + point.y)];
      const slot = this.kind === "stacked" ? 0 : shown.indexOf(point.series);
      const box = { x: place(point.x) - group / 2 + slot * thick, y: Math.min(one, other), width: Math.max(0.5, thick - (thick > 4 ? 1 : 0)), height: Math.max(1, Math.abs(one - other)) };
      this.listen(picture, svg("rect", { ...box, class: this.shape(point, number, "bar") }), point, number);
    });
  }

  private dots(picture: SVGElement, place: (x: number) => number, y: (value: number) => number): void {
    const points = this.visible;
    if (this.kind === "line" && !this.isAmbiguous) {
      for (const [number] of this.series.entries()) {
        const own = points.filter((point) => point.series === number);
        const way = own.map((point) => `${place(point.x).toFixed(1)},${y(point.y).toFixed(1)}`).join(" ");
        if (own.length > 0) picture.append(svg("polyline", { points: way, class: `way s${number}` }));
      }
    }
    points.forEach((point, number) => {
      const isActive = number === this.at;
      if (this.kind === "line" && !this.isAmbiguous && points.length > DOTS_MAX && !isActive) return;
      const dot = svg("circle", { cx: place(point.x), cy: y(point.y), r: isActive ? 6 : 3.5, class: this.shape(point, number, "dot") });
      this.listen(picture, dot, point, number);
    });
  }

  private shape(point: Point, number: number, kind: string): string {
    return `${kind} s${point.series}${number === this.at ? " active" : ""}`;
  }

  private listen(picture: SVGElement, made: SVGElement, point: Point, number: number): void {
    made.append(svg("title", {}, `${this.named(point)}: ${exact(point.y)}`));
    made.addEventListener("click", () => this.look(number));
    picture.append(made);
  }
}

/** Where stacks end, above and below zero. */
function ends(points: Point[]): number[] {
  const sums = new Map<string, number>();
  for (const { x, y } of points) sums.set(`${x} ${y < 0}`, (sums.get(`${x} ${y < 0}`) ?? 0) + y);
  return [...sums.values()];
}

function choice(label: string, name: string, options: [string, string][], chosen: string, choose: (value: string) => void): HTMLElement {
  const list = h("select", { "aria-label": name }, ...options.map(([value, shown]) => h("option", { value, selected: value === chosen }, shown)));
  list.addEventListener("change", () => choose(list.value));
  return h("span", {}, h("span", { "aria-hidden": "true" }, `${label} `), list);
}

function cut(name: string, most: number): string {
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function text(said: string, x: number, y: number, anchor: string): SVGElement {
  return svg("text", { x, y, class: "axis", "text-anchor": anchor }, said);
}
