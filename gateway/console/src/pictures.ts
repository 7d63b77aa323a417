// What a statement reads, and where a table's two tiers meet, drawn to scale.

import { isNumeric, type Column } from "./api";
import { bytes, count, h, plural, svg } from "./dom";

interface Range {
  [partition: string]: number;
}

export interface Scan {
  table: string;
  kind: string;
  columns: Column[];
  condition?: string | null;
  files?: number;
  files_total?: number;
  rows_cold?: number;
  boundary?: Range;
  end?: Range;
  reads?: { [partition: string]: [number, number] };
  pruned_by?: string[];
  boundary_trust?: string;
}

export interface Plan {
  engine: string;
  reason: string;
  estimate?: { rows_cold?: number; rows_hot?: number; bytes_cold?: number };
  scans: Scan[];
}

export interface Partition {
  partition: number;
  boundary: number;
  end: number;
  reads?: [number, number] | undefined;
}

const WIDTH = 640;
const LEFT = 44;
const RIGHT = 8;
const BAR = 16;
const STEP = 26;
const FILES_DRAWN = 120;

/** Offsets of each partition: in files up to the boundary, in the log alone from there on. */
export function seam(partitions: Partition[], label: string): SVGElement {
  const longest = Math.max(1, ...partitions.map((p) => p.end));
  const room = WIDTH - LEFT - RIGHT;
  const height = partitions.length * STEP + 6;
  const cold = partitions.reduce((sum, p) => sum + p.boundary, 0);
  const hot = partitions.reduce((sum, p) => sum + p.end - p.boundary, 0);
  const said = `${label}: ${count(cold)} offsets in files, ${count(hot)} in the log alone`;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": said, class: "seam" },
    svg("title", {}, said),
  );
  partitions.forEach((partition, number) => {
    const y = number * STEP + 4;
    const at = (offset: number): number => LEFT + (offset / longest) * room;
    // a tail of a few records among millions is still seen
    const end = at(partition.end);
    const tail = partition.end > partition.boundary ? Math.max(3, end - at(partition.boundary)) : 0;
    const edge = Math.max(LEFT, end - tail);
    const text = svg("text", { x: LEFT - 8, y: y + BAR - 4, class: "axis", "text-anchor": "end" });
    text.append(`p${partition.partition}`);
    picture.append(
      text,
      svg("rect", { x: LEFT, y, width: Math.max(0, edge - LEFT), height: BAR, class: "cold" }),
      svg("rect", { x: edge, y, width: tail, height: BAR, class: "hot" }),
    );
    const read = partition.reads;
    if (read && read[1] > read[0]) {
      const width = Math.max(3, at(read[1]) - at(read[0]));
      picture.append(svg("rect", { x: Math.max(edge, end - width), y: y + BAR - 4, width, height: 4, class: "read" }));
    }
    const told = `partition ${partition.partition}: files up to ${count(partition.boundary)}, log up to ${count(partition.end)}`;
    picture.append(
      svg("line", { x1: edge, x2: edge, y1: y - 3, y2: y + BAR + 3, class: "edge" }),
      svg("rect", { x: LEFT, y, width: room, height: BAR, class: "over" }, svg("title", {}, told)),
    );
  });
  return picture;
}

function files(read: number, total: number): SVGElement {
  const drawn = Math.min(FILES_DRAWN, Math.max(1, total));
  const each = (WIDTH - LEFT - RIGHT) / drawn;
  const said = `${plural(read, "file")} of ${count(total)} ${total === 1 ? "is" : "are"} read`;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} 24`, role: "img", "aria-label": said, class: "seam" },
    svg("title", {}, said),
  );
  for (let number = 0; number < drawn && total > 0; number++) {
    const isRead = number < Math.ceil((read / total) * drawn);
    const gap = each > 4 ? 2 : 0.5;
    const at = { x: LEFT + number * each, y: 3, width: Math.max(0.5, each - gap), height: 18, rx: each > 8 ? 2 : 0 };
    picture.append(svg("rect", { ...at, class: isRead ? "cold" : "unread" }));
  }
  return picture;
}

/** What the colours mean. */
export function legend(showsReads = true): HTMLElement {
  const key = (kind: string, text: string): HTMLElement =>
    h("span", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), text);
  return h(
    "p",
    { class: "legend" },
    key("cold", "in files (Iceberg)"),
    key("hot", "in the log alone (Kafka)"),
    key("edge", "the seam between them"),
    ...(showsReads ? [key("read", "read of the log")] : []),
  );
}

export function partitions(scan: Scan): Partition[] {
  return Object.keys(scan.end ?? {})
    .map(Number)
    .sort((a, b) => a - b)
    .map((partition) => ({
      partition,
      boundary: scan.boundary?.[partition] ?? 0,
      end: scan.end?.[partition] ?? 0,
      reads: scan.reads?.[partition],
    }));
}

/** A plan: the engine and why, and of each table what is read of both tiers. */
export function plan(found: Plan): HTMLElement {
  const { rows_cold = 0, rows_hot = 0, bytes_cold = 0 } = found.estimate ?? {};
  return h(
    "div",
    { class: "plan" },
    h(
      "p",
      { class: "route" },
      h("span", { class: `badge engine ${found.engine}` }, found.engine),
      ` ${found.reason}`,
    ),
    h(
      "p",
      { class: "muted" },
      `about ${plural(rows_cold, "row")} of files (${bytes(bytes_cold)}) and ${plural(rows_hot, "offset")} of the log`,
    ),
    found.scans.length > 0 && legend(),
    ...found.scans.map((scan) => {
      const total = scan.files_total ?? 0;
      const all = partitions(scan);
      return h(
        "section",
        { class: "scan" },
        h("h3", {}, scan.table, h("span", { class: "muted" }, ` ${scan.kind}`)),
        h("p", { class: "muted" }, `columns: ${scan.columns.map((column) => column.name).join(", ") || "none"}`),
        scan.condition && h("p", { class: "muted" }, "condition: ", h("code", {}, scan.condition)),
        total > 0 && h("p", { class: "muted" }, `${count(scan.files ?? 0)} of ${plural(total, "file")}`),
        total > 0 && files(scan.files ?? 0, total),
        all.length > 0 && seam(all, scan.table),
        (scan.pruned_by ?? []).length > 0 && h("p", { class: "muted" }, `left out by: ${scan.pruned_by!.join(", ")}`),
        scan.boundary_trust &&
          scan.boundary_trust !== "exact" &&
          h("p", { class: "warning" }, `the boundary is ${scan.boundary_trust}`),
      );
    }),
  );
}

/** Bars of the first numeric column by the first other one. */
export function chart(columns: Column[], rows: (string | null)[][]): HTMLElement {
  let value = columns.findIndex((column, at) => at > 0 && isNumeric(column));
  if (value < 0) value = columns.findIndex(isNumeric);
  if (value < 0 || rows.length === 0) {
    return h("p", { class: "muted" }, "A chart needs rows, and a column of numbers: the first is drawn over the first other column.");
  }
  const label = columns.findIndex((_, at) => at !== value);
  const points = rows.map((row, number) => ({
    name: label < 0 ? String(number + 1) : (row[label] ?? "NULL"),
    value: Number(row[value] ?? "NaN"),
  }));
  const known = points.filter((point) => Number.isFinite(point.value));
  const top = Math.max(0, ...known.map((point) => point.value));
  const bottom = Math.min(0, ...known.map((point) => point.value));
  const spread = top - bottom || 1;
  const width = 900;
  const height = 280;
  const each = Math.min(90, (width - 70) / points.length);
  const y = (number: number): number => 10 + ((top - number) / spread) * (height - 60);
  const said = `${columns[value]!.name} of ${plural(points.length, "row")}, from ${bottom} to ${top}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said, class: "chart" });
  for (const mark of [top, (top + bottom) / 2, bottom]) {
    const text = svg("text", { x: 58, y: y(mark) + 4, class: "axis", "text-anchor": "end" });
    text.append(Intl.NumberFormat("en", { maximumSignificantDigits: 4, notation: "compact" }).format(mark));
    picture.append(svg("line", { x1: 64, x2: width, y1: y(mark), y2: y(mark), class: "rule" }), text);
  }
  const every = Math.ceil(points.length / 16);
  points.forEach((point, number) => {
    const x = 66 + number * each;
    if (Number.isFinite(point.value)) {
      const from = y(Math.max(0, point.value));
      const bar = { x, y: from, width: Math.max(0.5, each - (each > 4 ? 2 : 0)), height: Math.max(1, Math.abs(y(point.value) - y(0))) };
      picture.append(svg("rect", { ...bar, class: "bar" }, svg("title", {}, `${point.name}: ${point.value}`)));
    }
    if (number % every === 0) {
      const text = svg("text", { x: x + each / 2, y: height - 30, class: "axis", "text-anchor": "middle" });
      text.append(point.name.length > 12 ? `${point.name.slice(0, 11)}…` : point.name);
      picture.append(text);
    }
  });
  return h("figure", {}, picture, h("figcaption", { class: "muted" }, said));
}
