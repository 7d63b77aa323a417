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
interface Session {
  after?: string;
  catalog?: string;
  schema?: string;
  properties: Record<string, unknown>;
  prepared: Record<string, string>;
}

export class Api {
  private session: Session = { properties: {}, prepared: {} };

  constructor(private readonly askForCredential: (refusal: Problem) => Promise<string>) {
    try {
      const kept = sessionStorage.getItem(SESSION);
      if (kept) this.session = JSON.parse(kept) as Session;
    } catch {
      sessionStorage.removeItem(SESSION);
    }
  }

  /** Where names that omit it are resolved. */
  get place(): string {
    return [this.session.catalog, this.session.schema].filter(Boolean).join(".");
  }

  async submit(statement: string, signal?: AbortSignal): Promise<Manifest> {
    const { after, catalog, schema, properties, prepared } = this.session;
    const body = {
      statement,
      wait_timeout: 1,
      on_wait_timeout: "CONTINUE",
      ...(after && { after }),
      ...(catalog && { catalog }),
      ...(schema && { schema }),
      ...(Object.keys(properties).length > 0 && { properties }),
      ...(Object.keys(prepared).length > 0 && { prepared }),
    };
    return this.json<Manifest>("api/v1/statements", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
  }

  /** Starts the session over if an error was about the session itself. */
  forget(problem: Problem): void {
    if (FORGET.has(problem.code)) delete this.session.after;
    this.keep();
  }

  /** Applies the changes of a statement. */
  remember(manifest: Manifest): void {
    if (manifest.session) this.session.after = manifest.session;
    const { catalog, schema, properties, prepared } = manifest.changes ?? {};
    if (catalog) this.session.catalog = catalog;
    if (schema) this.session.schema = schema;
    merge(this.session.properties, properties);
    merge(this.session.prepared, prepared);
    this.keep();
  }

  manifest(id: string, waitS = 0): Promise<Manifest> {
    return this.json<Manifest>(`api/v1/statements/${encodeURIComponent(id)}?wait=${waitS}`);
  }

  cancel(id: string): Promise<unknown> {
    const path = `api/v1/statements/${encodeURIComponent(id)}/cancel`;
    return this.json(path, { method: "POST" });
  }

  /** The statements that were run, newest first, without the page's own. */
  async history(): Promise<Summary[]> {
    const found = await this.json<{ statements: Summary[] }>("api/v1/statements?limit=1000");
    return found.statements.filter((summary) => !summary.statement.startsWith(OWN));
  }

  /** A chunk's rows as CSV: the texts that the command shows, and nulls distinguished from empty texts. */
  chunk(id: string, number: number): Promise<string> {
    const path = `api/v1/statements/${encodeURIComponent(id)}/chunks/${number}?format=CSV`;
    return this.text(path);
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
    for (;;) {
      const headers = new Headers(init.headers);
      const credential = sessionStorage.getItem(CREDENTIAL);
      if (credential) headers.set("Authorization", credential);
      let answer: Response;
      let body: string;
      try {
        answer = await fetch(path, { ...init, headers });
        body = await answer.text(); // a body that breaks off is a failure, never a shorter answer
      } catch (error) {
        if (error instanceof DOMException && error.name === "AbortError") throw error;
        throw new ApiError(0, {
          code: "GATEWAY_UNAVAILABLE",
          message: "the gateway did not answer",
          hint: "Is it running? Run the statement again once it is.",
        });
      }
      if (answer.ok) return body;
      const refused = problem(body, answer);
      if (answer.status !== 401) throw new ApiError(answer.status, refused);
      if (sessionStorage.getItem(CREDENTIAL) !== credential) continue; // someone has logged in since
      sessionStorage.setItem(CREDENTIAL, await this.askForCredential(refused));
      this.session = { properties: {}, prepared: {} }; // it may be someone else from now on
      this.keep();
    }
  }

  private keep(): void {
    sessionStorage.setItem(SESSION, JSON.stringify(this.session));
  }
}

/** JSON whose long whole numbers, such as the ids of snapshots, are texts: here they would lose digits. */
function exact(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (found) => (found.startsWith('"') ? found : `"${found}"`));
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
