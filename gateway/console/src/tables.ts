// The tree of tables, and the page of one.

import type { Completion } from "@codemirror/autocomplete";
import type { SQLNamespace } from "@codemirror/lang-sql";

import type { Api } from "./api";
import { age, button, count, h, plural, quoted } from "./dom";
import type { Names } from "./editor";
import { flow, legend, seam, tiering, type Commit, type Partition, type Sample } from "./pictures";
import { named, ours, problemBox } from "./problems";
import { exact, rough } from "./scales";

const LIVE_MS = 2000;
const SAMPLE = 50;
const FRESHNESS_ASKED = 25;
const COMMITS = 500;
const SAMPLES = 450;

export interface Table {
  catalog: string;
  schema: string;
  name: string;
  kind: "table" | "view" | "topic";
  topic: string | null;
  error: string | null;
}

interface ListedColumn {
  table_catalog: string;
  table_schema: string;
  table_name: string;
  column_name: string;
  data_type: string;
}

interface Statistics {
  column_name: string | null;
  nulls_fraction: number | null;
  low_value: string | null;
  high_value: string | null;
}

type Row = Record<string, unknown>;

interface Listed {
  table_catalog: string;
  table_schema: string;
  table_name: string | null;
  table_type: string;
  topic: string | null;
  error: string | null;
}

/** Whether both tiers are there. */
function isUnified(table: Table): boolean {
  return table.kind === "table" && table.topic !== null && table.error === null;
}

export function full(table: Table, suffix = ""): string {
  return [table.catalog, table.schema, `${table.name}${suffix}`].map(quoted).join(".");
}

export class Tree {
  readonly element = h("nav", { class: "tree", "aria-label": "Tables" });
  private readonly filter = h("input", {
    type: "search",
    placeholder: "Filter tables",
    "aria-label": "Filter tables",
    on: { input: () => this.draw() },
  });
  private readonly list = h("div", { class: "tree-list" });
  /** What is only in the log: how much, in short and in words. */
  private readonly tails = new Map<string, [string, string]>();
  private readonly open = new Set<string>();
  private readonly columns = new Map<string, ListedColumn[]>();
  private tables: Table[] = [];

  constructor(
    private readonly api: Api,
    private readonly onInsert: (text: string) => void,
  ) {
    const again = h(
      "button",
      { type: "button", title: "Reload the tables", "aria-label": "Reload the tables", on: { click: () => void this.load() } },
      "↻",
    );
    this.element.append(h("div", { class: "tree-top" }, this.filter, again), this.list);
  }

  /** The catalogs and schemas that have tables. */
  get places(): string[][] {
    const texts = new Set(this.tables.filter((table) => table.schema).map((table) => JSON.stringify([table.catalog, table.schema])));
    return [...texts].map((text) => JSON.parse(text) as string[]);
  }

  find(catalog: string, schema: string, name: string): Table {
    const found = this.tables.find((t) => t.catalog === catalog && t.schema === schema && t.name === name);
    return found ?? { catalog, schema, name, kind: "table", topic: null, error: null };
  }

  async load(): Promise<Names | null> {
    this.list.replaceChildren(h("p", { class: "muted" }, "Loading tables …"));
    try {
      const [catalogs, functions] = await Promise.all([
        this.api.rows<{ catalog_name: string; connector_name: string }>(
          "SELECT catalog_name, connector_name FROM system.metadata.catalogs WHERE connector_name <> 'system' ORDER BY connector_name, catalog_name",
        ),
        this.api.rows<{ Function: string; Signature: string }>("SHOW FUNCTIONS"),
      ]);
      const clusters = new Set(catalogs.filter((row) => row.connector_name === "kafka").map((row) => row.catalog_name));
      const found = await Promise.all(catalogs.map((row) => this.inCatalog(row.catalog_name)));
      const listed = found.flatMap((each) => each.tables);
      const columns = found.flatMap((each) => each.columns);
      this.columns.clear();
      for (const column of columns) {
        const key = [column.table_catalog, column.table_schema, column.table_name].map(quoted).join(".");
        this.columns.set(key, [...(this.columns.get(key) ?? []), column]);
      }
      this.tables = listed.map((row) => ({
        catalog: row.table_catalog,
        schema: row.table_schema,
        name: row.table_name ?? "",
        kind: clusters.has(row.table_catalog) ? "topic" : row.table_type === "VIEW" ? "view" : "table",
        topic: row.topic,
        error: row.error,
      }));
      this.draw();
      void this.askFreshness();
      return names(this.tables, this.columns, functions);
    } catch (error) {
      this.list.replaceChildren(problemBox(ours(error)));
      return null;
    }
  }

  /** The contents of a catalog; one that does not answer has an entry that says why. */
  private async inCatalog(catalog: string): Promise<{ tables: Listed[]; columns: ListedColumn[] }> {
    const place = `${quoted(catalog)}.information_schema`;
    try {
      const [tables, columns] = await Promise.all([
        this.api.rows<Listed>(
          `SELECT table_catalog, table_schema, table_name, table_type, topic, error FROM ${place}.tables ORDER BY 1, 2, 3`,
        ),
        this.api.rows<ListedColumn>(
          `SELECT table_catalog, table_schema, table_name, column_name, data_type FROM ${place}.columns ORDER BY ordinal_position`,
        ),
      ]);
      return { tables, columns };
    } catch (error) {
      const { code, message } = named(error);
      const away = { table_catalog: catalog, table_schema: "", table_name: null, table_type: "", topic: null };
      return { tables: [{ ...away, error: `${code}: ${message}` }], columns: [] };
    }
  }

  private async askFreshness(): Promise<void> {
    for (const table of this.tables.filter(isUnified).slice(0, FRESHNESS_ASKED)) {
      try {
        const [row] = await this.api.rows<{ tail: number | null }>(`SELECT sum(tail) AS tail FROM ${full(table, "$seam")}`);
        const tail = row?.tail ?? 0;
        this.tails.set(full(table), tail > 0 ? [rough(tail), `${count(tail)} only in the log`] : ["", "all in files"]);
      } catch (error) {
        this.tails.set(full(table), ["!", named(error).code]);
      }
    }
    this.draw();
  }

  private draw(): void {
    const wanted = this.filter.value.toLowerCase();
    const shown = this.tables.filter((table) => full(table).toLowerCase().includes(wanted));
    const groups = new Map<string, Table[]>();
    for (const table of shown) {
      const key = [table.catalog, table.schema].filter(Boolean).join(".");
      groups.set(key, [...(groups.get(key) ?? []), table]);
    }
    this.list.replaceChildren(
      ...[...groups].map(([place, tables]) =>
        h("details", { open: true }, h("summary", {}, place), h("ul", {}, ...tables.map((table) => this.entry(table)))),
      ),
    );
    if (shown.length === 0) {
      const why = this.tables.length > 0 ? "No table has this in its name." : "There are no tables yet: CREATE TABLE, or seamline table create.";
      this.list.append(h("p", { class: "muted" }, why));
    }
  }

  private entry(table: Table): HTMLElement {
    if (!table.name) return h("li", {}, h("span", { class: "warning" }, table.error));
    const { name } = table;
    const [tail, freshness] = this.tails.get(full(table)) ?? ["", undefined];
    const isOpen = this.open.has(full(table));
    const path = [table.catalog, table.schema, name].map(encodeURIComponent).join("/");
    const kinds = [table.kind === "table" && "files", table.topic && "log", table.kind === "view" && "a view"].filter(Boolean).join(" and ");
    const turn = (): void => {
      if (!this.open.delete(full(table))) this.open.add(full(table));
      this.draw();
      this.list.querySelector<HTMLElement>(`[data-table="${CSS.escape(full(table))}"] .disclose`)?.focus();
    };
    return h(
      "li",
      { class: "table", "data-table": full(table) },
      h(
        "div",
        { class: "line" },
        h("button", { type: "button", class: "disclose", "aria-expanded": String(isOpen), "aria-label": `Columns of ${name}`, on: { click: turn } }),
        table.kind !== "view" && h("span", { class: "tiers", role: "img", "aria-label": kinds, title: kinds }, h("i", { class: table.kind === "table" ? "cold" : "" }), h("i", { class: table.topic ? "hot" : "" })),
        h("a", { href: `#/t/${path}`, title: [full(table), table.topic && `topic ${table.topic}`, table.error ?? freshness].filter(Boolean).join("\n") }, name),
        table.kind === "view" && h("span", { class: "badge" }, "view"),
        tail && h("span", { class: "freshness", title: freshness }, tail),
        table.error && h("span", { class: "badge bad", title: table.error }, "!"),
        h(
          "button",
          { type: "button", class: "insert", title: `Insert ${name} into the statement`, "aria-label": `Insert ${name} into the statement`, on: { click: () => this.onInsert(full(table)) } },
          "+",
        ),
      ),
      isOpen && this.columnList(table, freshness),
    );
  }

  private columnList(table: Table, freshness: string | undefined): HTMLElement {
    const own = this.columns.get(full(table)) ?? [];
    const item = ({ column_name: name, data_type: type }: ListedColumn): HTMLElement =>
      h(
        "li",
        {},
        h("button", { type: "button", title: `Insert ${name}`, on: { click: () => this.onInsert(quoted(name)) } }, name),
        h("span", { class: "muted", title: type }, type),
      );
    return h(
      "ul",
      { class: "columns", "aria-label": `Columns of ${table.name}` },
      ...(own.length > 0 ? own.map(item) : [h("li", { class: "muted" }, "no columns are listed")]),
      freshness && h("li", { class: "freshness" }, freshness),
    );
  }
}

function names(tables: Table[], columns: Map<string, ListedColumn[]>, functions: { Function: string; Signature: string }[]): Names {
  const tree: Record<string, Record<string, Record<string, Completion[]>>> = {};
  const short: Record<string, Completion[]> = {};
  for (const table of tables) {
    const own = (columns.get(full(table)) ?? []).map(({ column_name: label, data_type: detail }) => ({ label, apply: quoted(label), type: "property", detail }));
    ((tree[table.catalog] ??= {})[table.schema] ??= {})[table.name] = own;
    short[table.name] ??= own; // lakes come before clusters, where topics often have the same names
  }
  return {
    tables: { ...tree, ...short } as SQLNamespace,
    columns: [...columns.values()].flat().map(({ column_name: name, data_type: type, table_name: table }) => ({ name, type, table })),
    functions: new Map(functions.map((row) => [row.Function, row.Signature])),
  };
}

// --- One table ----------------------------------------------------------------------------------

export class TablePage {
  readonly element = h("section", { class: "page", "aria-label": "Table" });
  private timer = 0;
  private number = 0;
  private readonly said = new Set<string>();

  constructor(
    private readonly api: Api,
    private readonly onQuery: (text: string) => void,
  ) {}

  hide(): void {
    this.number++;
    clearTimeout(this.timer);
  }

  show(table: Table): void {
    this.hide();
    this.said.clear();
    const number = this.number;
    const picture = h("div", { class: "live" });
    const flowing = h("div", { class: "live" });
    const query = `SELECT * FROM ${full(table)} LIMIT 100`;
    const tiers = isUnified(table);
    const parts = [
      h("h1", {}, full(table)),
      h("p", { class: "muted" }, table.kind === "table" && table.topic ? `over topic ${table.topic}` : table.kind === "topic" ? "a topic" : table.kind === "view" ? "a view" : "a table"),
      h("p", { class: "lead" }, button("Query", query, () => this.onQuery(query), "primary"), h("a", { href: "#/" }, "Back to the editor")),
      tiers && h("h2", {}, "The seam now"),
      tiers && picture,
      tiers && h("h2", {}, "Since this page was opened"),
      tiers && flowing,
      tiers && h("h2", {}, "Tiering"),
      tiers && this.history(table),
      this.columns(table),
      table.kind === "table" && this.part("Snapshots", `SELECT committed_at, operation, rows_added, rows_total, boundary, snapshot_id FROM ${full(table, "$snapshots")} ORDER BY committed_at DESC LIMIT 50`),
      this.part("Sample", `SELECT * FROM ${full(table)} LIMIT ${SAMPLE}`),
      table.kind !== "topic" && this.part("Definition", `SHOW CREATE ${table.kind} ${full(table)}`, true),
    ];
    this.element.replaceChildren(...parts.filter((made) => made instanceof HTMLElement));
    if (tiers) void this.look(table, picture, flowing, [], number);
  }

  /** The columns, with what the files say of their values. */
  private columns(table: Table): HTMLElement {
    if (table.kind !== "table") return this.part("Columns", `DESCRIBE ${full(table)}`);
    return this.part("Columns", `DESCRIBE ${full(table)}`, false, async (rows) => {
      const stats = await this.api.rows<Statistics>(`SHOW STATS FOR ${full(table)}`);
      const by = new Map(stats.map((row) => [row.column_name, row]));
      const share = (fraction: number | null | undefined): string => (typeof fraction === "number" ? `${exact(Math.round(1000 * fraction) / 10)} %` : "");
      return rows.map((row) => {
        const own = by.get(String(row["Column"]));
        const value = (text: string | null | undefined): string => (String(row["Type"]).startsWith("timestamp") ? iso(text ?? "") : (text ?? ""));
        return { ...row, "Nulls in files": share(own?.nulls_fraction), "Lowest in files": value(own?.low_value), "Highest in files": value(own?.high_value) };
      });
    });
  }

  private async look(table: Table, picture: HTMLElement, flowing: HTMLElement, samples: Sample[], number: number): Promise<void> {
    try {
      const found = await this.api.rows<Partition & { tail: number; lost: number }>(
        `SELECT partition, boundary, "end", tail, lost FROM ${full(table, "$seam")} ORDER BY partition`,
      );
      if (number !== this.number) return;
      const tail = found.reduce((sum, partition) => sum + partition.tail, 0);
      const end = found.reduce((sum, partition) => sum + partition.end, 0);
      const lost = found.reduce((sum, partition) => sum + partition.lost, 0);
      picture.replaceChildren(
        h("p", {}, `${count(tail)} of ${plural(end, "offset")} are only in the log; every statement sees them.`),
        ...(lost > 0 ? [h("p", { class: "muted" }, `${plural(lost, "offset")} had left the log before they were tiered; their loss was accepted.`)] : []),
        legend(false),
        seam(found, table.name),
      );
      samples.push({ at: Date.now(), end, tail });
      if (samples.length > SAMPLES) samples.shift();
      flowing.replaceChildren(flow(samples));
    } catch (error) {
      if (number !== this.number) return;
      picture.replaceChildren(problemBox(ours(error)));
    }
    this.timer = window.setTimeout(() => void this.look(table, picture, flowing, samples, number), LIVE_MS);
  }

  /** How tiering has gone: where the boundary was after each commit. */
  private history(table: Table): HTMLElement {
    const content = h("div", {}, "…");
    const number = this.number;
    const asked = [
      this.api.rows<Commit>(`SELECT committed_at, operation, rows_added, boundary FROM ${full(table, "$snapshots")} ORDER BY committed_at DESC LIMIT ${COMMITS}`),
      this.api.rows<{ end: number }>(`SELECT sum("end") AS "end" FROM ${full(table, "$seam")}`),
    ] as const;
    Promise.all(asked)
      .then(([commits, [row]]) => {
        if (number !== this.number) return;
        const picture = tiering(commits, row?.end ?? 0);
        content.replaceChildren(h("p", {}, pace(commits)), ...(picture ? [picture] : []));
      })
      .catch((error: unknown) => content.replaceChildren(problemBox(ours(error))));
    return content;
  }

  /** A part of the page that shows the rows of a statement, as they are or with more beside them. */
  private part(title: string, statement: string, isText = false, more = async (rows: Row[]): Promise<Row[]> => rows): HTMLElement {
    const content = h("div", { class: "part" }, "…");
    const number = this.number;
    this.api
      .rows<Row>(statement)
      .then(more)
      .then((rows) => {
        if (number !== this.number) return;
        if (isText) {
          const text = rows.map((row) => String(Object.values(row)[0])).join("\n");
          content.replaceChildren(h("pre", { class: "text", tabindex: "0" }, text));
        } else content.replaceChildren(small(title, rows));
      })
      .catch((error: unknown) => {
        if (number !== this.number) return;
        const problem = ours(error);
        if (this.said.has(problem.message)) return made.remove(); // once is enough
        this.said.add(problem.message);
        content.replaceChildren(problemBox(problem));
        made.setAttribute("open", "");
      });
    const made = h("details", { open: title !== "Sample" }, h("summary", {}, title), content);
    return made;
  }
}

/** A time as SHOW STATS has it, in the notation of results. */
function iso(text: string): string {
  return text.replace(" ", "T").replace(/ UTC$/, "Z");
}

/** How often tiering commits, and when it last did. */
function pace(commits: Commit[]): string {
  const moved = commits.filter((commit) => commit.boundary && (commit.rows_added ?? 0) > 0);
  const [newest] = moved;
  if (!newest) return "Nothing has been tiered yet.";
  const ago = age((Date.now() - Date.parse(newest.committed_at)) / 1000);
  const last = `The last commit with rows was ${ago} ago, and added ${plural(newest.rows_added ?? 0, "row")}`;
  if (moved.length < 2) return `${last}.`;
  const span = (Date.parse(newest.committed_at) - Date.parse(moved.at(-1)!.committed_at)) / 1000;
  return `${last}; ${count(moved.length)} commits came ${age(span / (moved.length - 1))} apart on average.`;
}

function small(title: string, rows: Row[]): HTMLElement {
  const [first] = rows;
  if (!first) return h("p", { class: "muted" }, "none");
  const show = (value: unknown): string =>
    value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return h(
    "div",
    { class: "scrolled", tabindex: "0", role: "region", "aria-label": title },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...Object.keys(first).map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...Object.values(row).map((value) => h("td", { class: value === null ? "null" : typeof value === "number" ? "number" : "" }, show(value).slice(0, 300)))))),
    ),
  );
}
