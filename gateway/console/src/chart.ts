// A result as a chart: bars, a line or points of a column of numbers over another column.

import { isNumeric, type Column } from "./api";
import { count, h, plural, svg } from "./dom";

const HEIGHT = 320;
const LEFT = 64;
const RIGHT = 16;
const TOP = 12;
const BOTTOM = 44;
const TICKS = 5;
const LABEL_CHARACTERS = 14;
const DOTS_MAX = 200;

const KINDS = ["bar", "line", "scatter"] as const;
type Kind = (typeof KINDS)[number];
const KIND_NAMES: Record<Kind, string> = { bar: "Bars", line: "Line", scatter: "Points" };

interface Point {
  name: string;
  /** Where it is along the axis: a number, a time, or its index. */
  x: number;
  y: number;
}

type Rows = (string | null)[][];

function isTime(column: Column | undefined): boolean {
  return /^(timestamp|date)/.test(column?.type ?? "");
}

function isScale(column: Column | undefined): boolean {
  return column !== undefined && (isTime(column) || isNumeric(column));
}

/** Whether a result has anything to draw. */
export function isDrawable(columns: Column[], rows: Rows): boolean {
  return rows.length > 0 && columns.some(isNumeric);
}

export class Chart {
  readonly element: HTMLElement;
  private readonly plot = h("div", { class: "plot", tabindex: "0", role: "slider" });
  private readonly said = h("p", { class: "muted", "aria-live": "polite" });
  private kind: Kind;
  private over: number;
  private of: number;
  private points: Point[] = [];
  private at = 0;

  constructor(
    private readonly columns: Column[],
    private readonly rows: Rows,
    total: number,
  ) {
    this.of = columns.findIndex((column, at) => at > 0 && isNumeric(column));
    if (this.of < 0) this.of = columns.findIndex(isNumeric);
    this.over = columns.findIndex((_, at) => at !== this.of);
    const along = columns[this.over];
    this.kind = isTime(along) ? "line" : isScale(along) ? "scatter" : "bar";
    this.plot.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
    const numbers = columns.flatMap((column, at) => (isNumeric(column) ? [at] : []));
    const cut = rows.length < total && ` Of ${plural(total, "row")}, the first ${count(rows.length)} are drawn.`;
    this.element = h(
      "figure",
      { class: "chart" },
      h(
        "div",
        { class: "choices" },
        choice("Chart", "Kind of chart", KINDS.map((kind) => [kind, KIND_NAMES[kind]]), this.kind, (value) => {
          this.kind = value as Kind;
        }, () => this.changed()),
        choice("of", "Column that is drawn", numbers.map((at) => [String(at), columns[at]!.name]), String(this.of), (value) => {
          this.of = Number(value);
        }, () => this.changed()),
        choice("over", "Column along the axis", [["-1", "row number"], ...columns.map((column, at): [string, string] => [String(at), column.name])], String(this.over), (value) => {
          this.over = Number(value);
        }, () => this.changed()),
      ),
      this.plot,
      h("figcaption", {}, this.said, cut && h("p", { class: "muted" }, cut)),
    );
    this.changed();
  }

  private changed(): void {
    const along = this.columns[this.over];
    this.points = this.rows.flatMap((row, number) => {
      const name = along ? (row[this.over] ?? "NULL") : String(number + 1);
      const y = row[this.of] === null ? NaN : Number(row[this.of]);
      const x = !isScale(along) || this.kind === "bar" ? number : isTime(along) ? Date.parse(name) : Number(name);
      return Number.isFinite(x) && Number.isFinite(y) ? [{ name, x, y }] : [];
    });
    if (this.kind === "line") this.points.sort((one, other) => one.x - other.x);
    this.at = 0;
    const label = `${this.columns[this.of]!.name} over ${along?.name ?? "row number"}`;
    this.plot.setAttribute("aria-label", `${label}: ${plural(this.points.length, "point")}`);
    this.plot.setAttribute("aria-valuemin", "1");
    this.plot.setAttribute("aria-valuemax", String(Math.max(1, this.points.length)));
    this.said.replaceChildren(`${label}. Use the left and right arrow keys to move between points.`);
    this.mark();
    this.draw();
  }

  private pressed(event: KeyboardEvent): void {
    const last = this.points.length - 1;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.look(Math.max(0, Math.min(last, to)));
  }

  private look(at: number): void {
    this.at = at;
    this.mark();
    this.draw();
    const point = this.points[at];
    if (point) this.said.replaceChildren(h("strong", {}, point.name), `: ${exact(point.y)}`);
  }

  private mark(): void {
    const point = this.points[this.at];
    this.plot.setAttribute("aria-valuenow", String(this.at + 1));
    this.plot.setAttribute("aria-valuetext", point ? `${point.name}: ${exact(point.y)}` : "nothing");
  }

  // --- Drawing ----------------------------------------------------------------------------------

  private draw(): void {
    const width = Math.max(280, this.plot.clientWidth);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" });
    if (this.points.length === 0) {
      this.plot.replaceChildren(h("p", { class: "muted" }, "No row has a number in this column and a value in the other."));
      return;
    }
    const ys = ticks(this.kind === "scatter" ? null : 0, this.points.map((point) => point.y));
    const [bottom, top] = [ys[0]!, ys.at(-1)!];
    const y = (value: number): number => TOP + ((top - value) / (top - bottom || 1)) * (HEIGHT - TOP - BOTTOM);
    for (const tick of ys) {
      picture.append(
        svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick), class: "rule" }),
        text(short(tick), LEFT - 8, y(tick) + 4, "end"),
      );
    }
    const place = this.scale(width);
    this.axis(picture, width, place);
    if (this.kind === "bar") this.bars(picture, width, y);
    else this.dots(picture, place, y);
    this.plot.replaceChildren(picture);
  }

  /** From a point to pixels along the axis. */
  private scale(width: number): (x: number) => number {
    const room = width - LEFT - RIGHT;
    if (this.kind === "bar" || !isScale(this.columns[this.over])) {
      const each = room / this.points.length;
      return (x) => LEFT + (x + 0.5) * each;
    }
    const xs = this.points.map((point) => point.x);
    const low = xs.reduce((a, b) => Math.min(a, b));
    const high = xs.reduce((a, b) => Math.max(a, b));
    return (x) => LEFT + 8 + ((x - low) / (high - low || 1)) * (room - 16);
  }

  private axis(picture: SVGElement, width: number, place: (x: number) => number): void {
    const along = this.columns[this.over];
    const base = HEIGHT - BOTTOM + 18;
    const fits = Math.max(1, Math.floor((width - LEFT - RIGHT) / 110));
    if (this.kind !== "bar" && isScale(along)) {
      const xs = this.points.map((point) => point.x);
      const low = xs.reduce((a, b) => Math.min(a, b));
      const high = xs.reduce((a, b) => Math.max(a, b));
      const marks = isTime(along) ? evenly(low, high, Math.min(fits, 6)) : ticks(null, [low, high]).filter((x) => x >= low && x <= high);
      const told = (x: number): string => (isTime(along) ? moment(x, high - low) : short(x));
      for (const x of marks.length > 0 ? marks : [low]) picture.append(text(told(x), place(x), base, "middle"));
    } else {
      const every = Math.ceil(this.points.length / Math.min(fits * 1.3, 16));
      this.points.forEach((point, number) => {
        if (number % every === 0) picture.append(text(cut(point.name), place(this.kind === "bar" ? number : point.x), base, "middle"));
      });
    }
    picture.append(text(along?.name ?? "row", LEFT + (width - LEFT - RIGHT) / 2, HEIGHT - 6, "middle"));
  }

  private bars(picture: SVGElement, width: number, y: (value: number) => number): void {
    const each = (width - LEFT - RIGHT) / this.points.length;
    const thick = Math.min(72, Math.max(0.5, each * 0.8));
    this.points.forEach((point, number) => {
      const from = y(Math.max(0, point.y));
      const tall = Math.max(1, Math.abs(y(point.y) - y(0)));
      const x = LEFT + (number + 0.5) * each - thick / 2;
      const kind = number === this.at ? "bar active" : "bar";
      this.listen(picture, svg("rect", { x, y: from, width: thick, height: tall, class: kind }, svg("title", {}, `${point.name}: ${exact(point.y)}`)), number);
    });
  }

  private dots(picture: SVGElement, place: (x: number) => number, y: (value: number) => number): void {
    const along = (point: Point, number: number): number => place(isScale(this.columns[this.over]) ? point.x : number);
    if (this.kind === "line") {
      const way = this.points.map((point, number) => `${along(point, number).toFixed(1)},${y(point.y).toFixed(1)}`).join(" ");
      picture.append(svg("polyline", { points: way, class: "way" }));
    }
    this.points.forEach((point, number) => {
      const isActive = number === this.at;
      if (this.kind === "line" && this.points.length > DOTS_MAX && !isActive) return;
      const dot = svg("circle", { cx: along(point, number), cy: y(point.y), r: isActive ? 6 : 3.5, class: isActive ? "dot active" : "dot" });
      dot.append(svg("title", {}, `${point.name}: ${exact(point.y)}`));
      this.listen(picture, dot, number);
    });
  }

  private listen(picture: SVGElement, made: SVGElement, number: number): void {
    made.addEventListener("click", () => this.look(number));
    picture.append(made);
  }
}

function choice(
  label: string,
  name: string,
  options: [string, string][],
  chosen: string,
  choose: (value: string) => void,
  then: () => void,
): HTMLElement {
  const list = h(
    "select",
    { "aria-label": name },
    ...options.map(([value, shown]) => h("option", { value, selected: value === chosen }, shown)),
  );
  list.addEventListener("change", () => {
    choose(list.value);
    then();
  });
  return h("span", {}, h("span", { "aria-hidden": "true" }, `${label} `), list);
}

// --- Numbers and moments ------------------------------------------------------------------------

/** Round numbers that enclose values, and one more value if it is given. */
function ticks(also: number | null, values: number[]): number[] {
  const all = also === null ? values : [...values, also];
  const low = all.reduce((a, b) => Math.min(a, b));
  const high = all.reduce((a, b) => Math.max(a, b));
  const spread = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(spread / TICKS));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => spread / each <= TICKS) ?? spread;
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step));
  return Array.from({ length: last - first + 1 }, (_, number) => (first + number) * step);
}

function evenly(low: number, high: number, most: number): number[] {
  if (high === low || most < 2) return [low];
  return Array.from({ length: most }, (_, number) => low + ((high - low) * number) / (most - 1));
}

const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, notation: "compact" });
const EXACT = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

function short(value: number): string {
  return SHORT.format(Object.is(value, -0) ? 0 : value);
}

function exact(value: number): string {
  return EXACT.format(value);
}

const DAY_MS = 86_400_000;

function moment(ms: number, spread: number): string {
  const iso = new Date(ms).toISOString();
  if (spread > 3 * DAY_MS) return iso.slice(0, 10);
  return spread > 300_000 ? iso.slice(5, 16).replace("T", " ") : iso.slice(11, 19);
}

function cut(name: string): string {
  return name.length > LABEL_CHARACTERS ? `${name.slice(0, LABEL_CHARACTERS - 1)}…` : name;
}

function text(said: string, x: number, y: number, anchor: string): SVGElement {
  return svg("text", { x, y, class: "axis", "text-anchor": anchor }, said);
}
