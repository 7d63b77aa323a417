// What a statement reads, and where a table's two tiers meet, drawn to scale.

import type { Column } from "./api";
import { bytes, count, h, moment, plural, svg } from "./dom";
import { moments, short, ticks } from "./scales";

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
  /** Null, as estimates are left out, where the reader may not see all of a table. */
  reason: string | null;
  estimate?: { rows_cold?: number; rows_hot?: number; bytes_cold?: number };
  scans: Scan[];
}

export interface Partition {
  partition: number;
  boundary: number;
  end: number;
  reads?: [number, number] | undefined;
}

const WIDTH_MAX = 900;
const WIDTH_MIN = 320;
const LEFT = 44;
const BAR = 16;
const STEP = 26;
const FILES_DRAWN = 120;

/** The width of pictures, so that their text is as large as other text. */
function widths(): { width: number; right: number } {
  const room = document.getElementById("content")?.clientWidth ?? innerWidth;
  const width = Math.max(WIDTH_MIN, Math.min(WIDTH_MAX, room - (innerWidth > 800 ? 48 : 24)));
  return { width, right: width < 600 ? 118 : 190 };
}

/** Offsets of each partition: in files up to the boundary, only in the log from there on. */
export function seam(partitions: Partition[], label: string): SVGElement {
  const longest = Math.max(1, ...partitions.map((p) => p.end));
  const { width: whole, right } = widths();
  const room = whole - LEFT - right;
  const height = partitions.length * STEP + 6;
  const cold = partitions.reduce((sum, p) => sum + p.boundary, 0);
  const hot = partitions.reduce((sum, p) => sum + p.end - p.boundary, 0);
  const said = `${label}: ${count(cold)} offsets in files, ${count(hot)} only in the log`;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${whole} ${height}`, role: "img", "aria-label": said, class: "seam" },
    svg("title", {}, said),
  );
  partitions.forEach((partition, number) => {
    const y = number * STEP + 4;
    const at = (offset: number): number => LEFT + (offset / longest) * room;
    // a tail of a few records among millions is still visible
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
      svg(
        "text",
        { x: LEFT + room + 12, y: y + BAR - 4, class: "axis" },
        `${count(partition.boundary)} + ${count(partition.end - partition.boundary)}`,
      ),
    );
  });
  return picture;
}

function files(read: number, total: number): SVGElement {
  const drawn = Math.min(FILES_DRAWN, Math.max(1, total));
  const { width, right } = widths();
  const each = (width - LEFT - right) / drawn;
  const said = `${plural(read, "file")} of ${count(total)} ${total === 1 ? "is" : "are"} read`;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} 24`, role: "img", "aria-label": said, class: "seam" },
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
    key("hot", "only in the log (Kafka)"),
    key("edge", "the seam between them"),
    ...(showsReads ? [key("read", "read from the log")] : []),
    h("span", { class: "muted" }, "numbers: offsets in files + only in the log"),
  );
}

/** A commit of a table, as its snapshots are listed. */
export interface Commit {
  committed_at: string;
  operation: string;
  rows_added: number | null;
  /** JSON: the first offset of each partition that is not in the snapshot. */
  boundary: string | null;
}

const HISTORY_HEIGHT = 150;

/** How the boundary has moved: offsets in files after each commit, over time, up to now. */
export function tiering(commits: Commit[], end: number): SVGElement | null {
  const moved = commits
    .flatMap((commit) => {
      if (!commit.boundary) return [];
      const offsets = Object.values(JSON.parse(commit.boundary) as Range);
      return [{ commit, total: offsets.reduce((sum, offset) => sum + offset, 0), at: Date.parse(commit.committed_at) }];
    })
    .sort((one, other) => one.at - other.at);
  const first = moved[0];
  const last = moved.at(-1);
  if (!first || !last || moved.length < 2) return null;
  const { width, right } = widths();
  const now = Math.max(Date.now(), last.at);
  const top = Math.max(end, last.total, 1);
  const x = (at: number): number => LEFT + ((at - first.at) / (now - first.at || 1)) * (width - LEFT - right);
  const y = (total: number): number => 8 + (1 - total / top) * (HISTORY_HEIGHT - 34);
  const corners = moved.flatMap((entry, number) => {
    const before = moved[number - 1]?.total ?? entry.total;
    return [`${x(entry.at).toFixed(1)},${y(before).toFixed(1)}`, `${x(entry.at).toFixed(1)},${y(entry.total).toFixed(1)}`];
  });
  const edge = [`${x(now).toFixed(1)},${y(last.total).toFixed(1)}`, `${x(now).toFixed(1)},${y(0)}`, `${x(first.at)},${y(0)}`];
  const said = `${plural(moved.length, "commit")} have moved the boundary from ${count(first.total)} to ${count(last.total)}; the log ends at ${count(end)}`;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${HISTORY_HEIGHT}`, role: "img", "aria-label": said, class: "seam" },
    svg("title", {}, said),
    ...ticks(0, [top], 3).filter((tick) => tick <= top).flatMap((tick) => [
      svg("line", { x1: LEFT, x2: width - right, y1: y(tick), y2: y(tick), class: "rule" }),
      svg("text", { x: LEFT - 6, y: y(tick) + 4, class: "axis", "text-anchor": "end" }, short(tick)),
    ]),
    svg("line", { x1: LEFT, x2: width - right, y1: y(end), y2: y(end), class: "log-end" }),
    svg("polygon", { points: [...corners, ...edge].join(" "), class: "tiered" }),
    ...moved.map((entry) =>
      svg(
        "circle",
        { cx: x(entry.at), cy: y(entry.total), r: 3, class: "commit" },
        svg("title", {}, `${moment(entry.at)}: ${entry.commit.operation}, ${count(entry.commit.rows_added ?? 0)} rows added`),
      ),
    ),
    svg("text", { x: width - right + 12, y: y(end) + 4, class: "axis" }, `${right < 150 ? "log" : "log ends at"} ${count(end)}`),
    y(last.total) - y(end) > 18 && svg("text", { x: width - right + 12, y: y(last.total) + 4, class: "axis" }, `${right < 150 ? "files" : "in files"} ${count(last.total)}`),
    ...timeAxis(first.at, now, x, HISTORY_HEIGHT - 6, width - LEFT - right),
  );
}

function timeAxis(from: number, to: number, x: (at: number) => number, y: number, room: number): SVGElement[] {
  const marks = moments(from, to, Math.max(1, Math.floor(room / 120)));
  return marks.ticks.map((at) => svg("text", { x: x(at), y, class: "axis", "text-anchor": x(at) < LEFT + 40 ? "start" : "middle" }, marks.label(at)));
}

/** How a table stood at a moment: where its log ended, and how many offsets were only there. */
export interface Sample {
  at: number;
  end: number;
  tail: number;
}

const FLOW_HEIGHT = 112;

/** What is only in the log, and the records that came in a second, over time. */
export function flow(samples: Sample[]): HTMLElement {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last || samples.length < 2) return h("p", { class: "muted" }, "The first points come in a few seconds …");
  const to = Math.max(last.at, first.at + 10_000);
  const rates = samples.slice(1).map((sample, number) => {
    const before = samples[number]!;
    return { at: sample.at, value: Math.max(0, ((sample.end - before.end) * 1000) / (sample.at - before.at)) };
  });
  const tails = samples.map(({ at, tail }) => ({ at, value: tail }));
  const mean = ((last.end - first.end) * 1000) / (last.at - first.at);
  return h(
    "div",
    { class: "flow" },
    h("h3", {}, "Lag ", h("span", { class: "muted" }, `offsets that are only in the log: ${count(last.tail)} now`)),
    curve(tails, [first.at, to], "lag", `Lag: ${count(last.tail)} offsets are only in the log`),
    h("h3", {}, "Rate ", h("span", { class: "muted" }, `offsets that came in a second: ${short(Math.max(0, mean))} on average`)),
    curve(rates, [first.at, to], "rate", `Rate: ${short(Math.max(0, mean))} offsets a second on average`),
  );
}

function curve(points: { at: number; value: number }[], [from, to]: [number, number], kind: "lag" | "rate", said: string): SVGElement {
  const { width } = widths();
  const levels = ticks(0, points.map((point) => point.value), 3);
  const top = levels.at(-1)!;
  const right = 12;
  const x = (at: number): number => LEFT + ((at - from) / (to - from)) * (width - LEFT - right);
  const y = (value: number): number => 8 + (1 - value / top) * (FLOW_HEIGHT - 34);
  const corners = points.map((point) => `${x(point.at).toFixed(1)},${y(point.value).toFixed(1)}`);
  const base = [`${x(points.at(-1)!.at).toFixed(1)},${y(0)}`, `${x(points[0]!.at).toFixed(1)},${y(0)}`];
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${FLOW_HEIGHT}`, role: "img", "aria-label": said, class: "seam" },
    ...levels.flatMap((level) => [
      svg("line", { x1: LEFT, x2: width - right, y1: y(level), y2: y(level), class: "rule" }),
      svg("text", { x: LEFT - 6, y: y(level) + 4, class: "axis", "text-anchor": "end" }, short(level)),
    ]),
    kind === "lag" ? svg("polygon", { points: [...corners, ...base].join(" "), class: kind }) : svg("polyline", { points: corners.join(" "), class: kind }),
    ...timeAxis(from, to, x, FLOW_HEIGHT - 6, width - LEFT - right),
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

/** A plan: the engine and why, and for each table what is read from both tiers. */
export function plan(found: Plan): HTMLElement {
  const { rows_cold = 0, rows_hot = 0, bytes_cold = 0 } = found.estimate ?? {};
  return h(
    "div",
    { class: "plan" },
    h(
      "p",
      { class: "route" },
      h("span", { class: `badge engine ${found.engine}` }, found.engine),
      found.reason && ` ${found.reason}`,
    ),
    found.reason !== null && h(
      "p",
      { class: "muted" },
      `about ${plural(rows_cold, "row")} from files (${bytes(bytes_cold)}) and ${plural(rows_hot, "offset")} from the log`,
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
        (scan.pruned_by ?? []).length > 0 && h("p", { class: "muted" }, `pruned by: ${scan.pruned_by!.join(", ")}`),
        scan.boundary_trust &&
          scan.boundary_trust !== "exact" &&
          h("p", { class: "warning" }, `the boundary is ${scan.boundary_trust}`),
      );
    }),
  );
}
