// The gateway's REST interface as the console uses it. Every failure is an `ApiError` with the
// gateway's own code, message and hint.

export interface Place {
  line: number;
  column: number;
}

export interface Problem {
  code: string;
  message: string;
  hint: string;
  location?: Place | null;
  query_id?: string | null;
}

export interface Column {
  name: string;
  type: string;
}

export function isNumeric(column: Column): boolean {
  return /^(tinyint|smallint|integer|bigint|real|double|decimal)/.test(column.type);
}

export interface Receipt {
  engine?: string;
  /** Null where the reader may not see all rows, or all values. */
  rows_cold?: number | null;
  rows_hot?: number | null;
  bytes_cold?: number | null;
  bytes_hot?: number | null;
  as_of?: string;
  [name: string]: unknown;
}

export interface Changes {
  properties?: Record<string, unknown>;
  prepared?: Record<string, string | null>;
  catalog?: string;
  schema?: string;
}

export interface Manifest {
  statement_id: string;
  state: "PENDING" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELED" | "CLOSED";
  elapsed_s: number;
  progress: Record<string, unknown>;
  error?: Problem | null;
  columns: Column[];
  chunks?: { count: number; rows: number[]; complete: boolean } | null;
  row_count: number;
  truncated: boolean;
  receipt?: Receipt;
  session?: string | null;
  update_type?: string | null;
  update_count?: number | null;
  changes?: Changes;
  is_read?: boolean;
  inline?: { data: unknown[][] } | null;
}

export interface Summary {
  statement_id: string;
  user: string;
  statement: string;
  state: Manifest["state"];
  submitted_at: number;
  elapsed_s: number;
  row_count: number;
  receipt: Receipt;
  error?: Problem | null;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.message);
  }
}

export const ENDED = new Set<Manifest["state"]>(["SUCCEEDED", "FAILED", "CANCELED", "CLOSED"]);

/** Statements of the page itself begin with this, so that a list of statements can leave them out. */
export const OWN = "/* console */ ";

const CREDENTIAL = "seamline.credential";
const SESSION = "seamline.session";

/** Errors that say that something the tab has seen is no longer available, or not here. */
const FORGET = new Set(["INVALID_TOKEN", "HISTORY_CHANGED"]);

/** A session: what it must not fall behind, and what SET SESSION and USE have changed. */
export interface Session {
  after?: string;
  catalog?: string;
  schema?: string;
  properties: Record<string, unknown>;
  prepared: Record<string, string>;
}

export class Api {
  private kept: Session = { properties: {}, prepared: {} };
  /** Called whenever the session has changed. */
  onSession: () => void = () => undefined;

  constructor(private readonly askForCredential: (refusal: Problem) => Promise<string>) {
    try {
      const kept = sessionStorage.getItem(SESSION);
      if (kept) this.kept = JSON.parse(kept) as Session;
    } catch {
      sessionStorage.removeItem(SESSION);
    }
  }

  /** The session of this tab. */
  get session(): Readonly<Session> {
    return this.kept;
  }

  async submit(statement: string, options: Record<string, unknown> = {}): Promise<Manifest> {
    const { after, catalog, schema, properties, prepared } = this.kept;
    const body = {
      statement,
      wait_timeout: 1,
      on_wait_timeout: "CONTINUE",
      ...(after && { after }),
      ...(catalog && { catalog }),
      ...(schema && { schema }),
      ...(Object.keys(properties).length > 0 && { properties }),
      ...(Object.keys(prepared).length > 0 && { prepared }),
      ...options,
    };
    return this.json<Manifest>("api/v1/statements", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  }

  /** The first row of a small statement that runs as the session's statements do, and changes it as they do. */
  async ask(statement: string): Promise<unknown[]> {
    const manifest = await this.submit(`${OWN}\n${statement}`, { wait_timeout: 60, on_wait_timeout: "CANCEL" });
    if (manifest.error) throw new ApiError(200, manifest.error);
    if (manifest.changes) this.remember({ ...manifest, session: null });
    return manifest.inline?.data[0] ?? [];
  }

  /** Takes back what a session has set, or forgets what it has seen. */
  takeBack(what: "place" | "after" | { property: string } | { prepared: string }): void {
    if (what === "place") {
      delete this.kept.catalog;
      delete this.kept.schema;
    } else if (what === "after") delete this.kept.after;
    else if ("property" in what) delete this.kept.properties[what.property];
    else delete this.kept.prepared[what.prepared];
    this.keep();
  }

  /** Starts the session over if an error was about the session itself. */
  forget(problem: Problem): void {
    if (FORGET.has(problem.code)) delete this.kept.after;
    this.keep();
  }

  /** Applies the changes of a statement. */
  remember(manifest: Manifest): void {
    if (manifest.session) this.kept.after = manifest.session;
    const { catalog, schema, properties, prepared } = manifest.changes ?? {};
    if (catalog) this.kept.catalog = catalog;
    if (schema) this.kept.schema = schema;
    merge(this.kept.properties, properties);
    merge(this.kept.prepared, prepared);
    this.keep();
  }

  manifest(id: string, waitS = 0): Promise<Manifest> {
    return this.json<Manifest>(`api/v1/statements/${encodeURIComponent(id)}?wait=${waitS}`);
  }

  /** Releases a result that nobody shows any more. */
  async release(id: string): Promise<void> {
    await this.text(`api/v1/statements/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  cancel(id: string): Promise<unknown> {
    const path = `api/v1/statements/${encodeURIComponent(id)}/cancel`;
    return this.json(path, { method: "POST" });
  }

  /** The latest statements that the user may see, newest first, the page's own among them. */
  async statements(): Promise<Summary[]> {
    return (await this.json<{ statements: Summary[] }>("api/v1/statements?limit=1000")).statements;
  }

  /** A chunk's rows as CSV: the texts that the command shows, and nulls distinguished from empty texts. */
  chunk(id: string, number: number): Promise<string> {
    const path = `api/v1/statements/${encodeURIComponent(id)}/chunks/${number}?format=CSV`;
    return this.text(path);
  }

  /** All rows of a statement in one file. */
  async file(id: string, form: string): Promise<Blob> {
    return new Blob([await this.fetched(`api/v1/statements/${encodeURIComponent(id)}/rows?format=${form}`)]);
  }

  /** The rows of a small statement, as objects. */
  rows<Row>(statement: string): Promise<Row[]> {
    return this.json<Row[]>("api/v1/query?format=json", {
      method: "POST",
      headers: { "Content-Type": "application/sql" },
      body: OWN + statement,
    });
  }

  info(): Promise<{ product: string; version: string }> {
    return this.json("api/v1/info");
  }

  private async json<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
    return JSON.parse(exact((await this.text(path, init)) || "null")) as Answer;
  }

  private async text(path: string, init: RequestInit = {}): Promise<string> {
    return new TextDecoder().decode(await this.fetched(path, init));
  }

  private async fetched(path: string, init: RequestInit = {}): Promise<ArrayBuffer> {
    for (;;) {
      const headers = new Headers(init.headers);
      const credential = sessionStorage.getItem(CREDENTIAL);
      if (credential) headers.set("Authorization", credential);
      let answer: Response;
      let body: ArrayBuffer;
      try {
        answer = await fetch(path, { ...init, headers });
        body = await answer.arrayBuffer(); // a body that breaks off is a failure, never a shorter answer
      } catch {
        throw new ApiError(0, {
          code: "GATEWAY_UNAVAILABLE",
          message: "the gateway did not answer",
          hint: "Is it running? Run the statement again once it is.",
        });
      }
      if (answer.ok) return body;
      const refused = problem(new TextDecoder().decode(body), answer);
      if (answer.status !== 401) throw new ApiError(answer.status, refused);
      if (sessionStorage.getItem(CREDENTIAL) !== credential) continue; // someone has logged in since
      sessionStorage.setItem(CREDENTIAL, await this.askForCredential(refused));
      this.kept = { properties: {}, prepared: {} }; // it may be someone else from now on
      this.keep();
    }
  }

  private keep(): void {
    sessionStorage.setItem(SESSION, JSON.stringify(this.kept));
    this.onSession();
  }
}

/** JSON whose long whole numbers, such as the ids of snapshots, are texts: here they would lose digits. */
function exact(json: string): string {
  const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return json.replace(token, (number) => (/^-?\d{16,}$/.test(number) ? `"${number}"` : number));
}

function problem(body: string, answer: Response): Problem {
  try {
    const found = (JSON.parse(body) as { error?: Problem }).error;
    if (found?.code) return found;
  } catch {
    // not the gateway's own words
  }
  const message = `${answer.status} ${answer.statusText}`;
  return { code: "GATEWAY_UNAVAILABLE", message, hint: "Something in between answered instead." };
}

function merge<Value>(
  held: Record<string, Value>,
  changes: Record<string, Value | null> | undefined,
): void {
  for (const [name, value] of Object.entries(changes ?? {})) {
    if (value === null) delete held[name];
    else held[name] = value;
  }
}
