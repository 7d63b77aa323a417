// The console: one page over the gateway's REST interface.
//
//   #/            statements and their results        #/history     what was run
//   #/q/ID        a statement that was run before     #/t/C/S/T     a table

import "./style.css";

import { Api, type Problem, type Summary } from "./api";
import { count, h, plural, seconds } from "./dom";
import { Editor } from "./editor";
import { named, problemBox, Runs } from "./runs";
import type { Part } from "./statements";
import { TablePage, Tree } from "./tables";

const THEME = "seamline.theme";
const THEMES = ["auto", "light", "dark"] as const;

const api = new Api(login);
const editor = new Editor(run, explain);
const runs = new Runs(api, opened, marked);
const tree = new Tree(api, (text) => {
  location.hash = "#/";
  editor.insert(text);
});
const page = new TablePage(api, (text) => {
  editor.text = text;
  location.hash = "#/";
  run();
});
const past = h("section", { class: "page", "aria-label": "History" });
const desk = h("div", { class: "desk" }, h("div", { class: "editor-box" }, toolbar(), editor.element), runs.element);
let part: Part | undefined;

function run(): void {
  begin((current) => void runs.run(current));
}

function explain(): void {
  begin((current) => void runs.explain(current));
}

function begin(work: (current: Part) => void): void {
  part = editor.current;
  if (!part) return editor.focus();
  editor.clear();
  work(part);
}

function opened(id: string | null): void {
  if (id) history.replaceState(null, "", `#/q/${id}`);
}

function marked(problem: Problem): void {
  if (problem.location && part) editor.mark(problem, part, problem.location);
}

function toolbar(): HTMLElement {
  const button = (label: string, title: string, click: () => void, kind = ""): HTMLElement =>
    h("button", { type: "button", title, class: kind, on: { click } }, label);
  return h(
    "div",
    { class: "bar", role: "toolbar", "aria-label": "Statement" },
    button("Run", "Runs the statement at the cursor, or the selection (Ctrl+Enter)", run, "primary"),
    button("Explain", "Shows what it reads, and where (Ctrl+Shift+Enter)", explain),
    h("span", { class: "muted keys" }, "Ctrl+Enter runs the statement at the cursor · Ctrl+Space completes · Esc cancels"),
  );
}

function header(): HTMLElement {
  const theme = h("button", { type: "button", title: "Light, dark, or the system's setting", on: { click: turn } });
  const say = (): void => {
    const now = localStorage.getItem(THEME) ?? "auto";
    theme.replaceChildren(h("span", { class: "wide" }, "Theme: "), now);
    theme.setAttribute("aria-label", `Theme: ${now}`);
    document.documentElement.dataset["theme"] = now;
  };
  function turn(): void {
    const now = THEMES.indexOf((localStorage.getItem(THEME) ?? "auto") as (typeof THEMES)[number]);
    localStorage.setItem(THEME, THEMES[(now + 1) % THEMES.length]!);
    say();
  }
  say();
  const version = h("span", { class: "muted" });
  api.info().then(
    (found) => (version.textContent = found.version),
    () => undefined,
  );
  return h(
    "header",
    {},
    h("a", { href: "#/", class: "brand" }, mark(), "Seamline"),
    version,
    h("nav", { "aria-label": "Pages" }, h("a", { href: "#/" }, "Statements"), h("a", { href: "#/history" }, "History")),
    theme,
  );
}

function mark(): HTMLElement {
  return h("span", { class: "mark", "aria-hidden": "true" }, h("i", { class: "cold" }), h("i", { class: "hot" }));
}

// --- Pages --------------------------------------------------------------------------------------

async function route(): Promise<void> {
  const [, kind = "", ...rest] = location.hash.split("/").map(decoded);
  page.hide();
  desk.hidden = kind === "t" || kind === "history";
  page.element.hidden = kind !== "t";
  past.hidden = kind !== "history";
  if (kind === "t") page.show(tree.find(rest[0] ?? "", rest[1] ?? "", rest[2] ?? ""));
  else if (kind === "history") await showHistory();
  else if (kind === "q" && rest[0]) await openStatement(rest[0]);
}

/** A part of the address; one that is not encoded as it should be is taken as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function openStatement(id: string): Promise<void> {
  const listed = await api.history().catch(() => []);
  const found = listed.find((summary) => summary.statement_id === id);
  if (found && !editor.text.includes(found.statement)) editor.text = found.statement;
  part = { text: found?.statement ?? "", from: Math.max(0, editor.text.indexOf(found?.statement ?? "")), to: 0 };
  await runs.open(id, found?.statement ?? "");
}

async function showHistory(): Promise<void> {
  past.replaceChildren(h("h2", {}, "History"), h("p", { class: "muted" }, "…"));
  try {
    const found = await api.history();
    past.replaceChildren(
      h("h2", {}, "History"),
      found.length === 0
        ? h("p", { class: "muted" }, "Nothing has been run yet.")
        : h("ol", { class: "history" }, ...found.map(entry)),
    );
  } catch (error) {
    past.replaceChildren(h("h2", {}, "History"), problemBox(named(error)));
  }
}

function entry(summary: Summary): HTMLElement {
  const { rows_cold: cold, rows_hot: hot, engine = "" } = summary.receipt;
  const at = new Date(summary.submitted_at * 1000);
  const rows = typeof cold === "number" && typeof hot === "number" ? ` · ${count(cold)} cold + ${count(hot)} hot` : "";
  const read = engine ? `${rows} · ${engine}` : "";
  return h(
    "li",
    {},
    h("a", { href: `#/q/${summary.statement_id}`, class: "statement" }, summary.statement),
    h(
      "div",
      { class: "muted" },
      h("span", { class: `badge ${summary.error ? "bad" : ""}` }, summary.error?.code ?? summary.state.toLowerCase()),
      ` ${at.toLocaleString()} · ${summary.user} · ${seconds(summary.elapsed_s)} · ${plural(summary.row_count, "row")}${read}`,
    ),
  );
}

// --- Logging in ---------------------------------------------------------------------------------

let asking: Promise<string> | null = null;

/** Asks once for all requests that were refused at the same time. */
function login(refusal: Problem): Promise<string> {
  asking ??= new Promise<string>((resolve) => {
    const user = h("input", { id: "login-user", autocomplete: "username" });
    const secret = h("input", { id: "login-secret", type: "password", autocomplete: "current-password", required: true });
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", {}, "Log in"),
      h("p", { class: "muted" }, refusal.message),
      h("label", { for: "login-user" }, "User (empty for an access token)"),
      user,
      h("label", { for: "login-secret" }, "Password or access token"),
      secret,
      h("button", { type: "submit", class: "primary" }, "Log in"),
    );
    const dialog = h("dialog", { "aria-label": "Log in", on: { cancel: (event) => event.preventDefault() } }, form);
    form.addEventListener("submit", () => {
      const pair = new TextEncoder().encode(`${user.value}:${secret.value}`);
      const basic = btoa(String.fromCharCode(...pair));
      resolve(user.value ? `Basic ${basic}` : `Bearer ${secret.value}`);
      dialog.remove();
      asking = null;
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

document.body.append(
  h("a", { href: "#content", class: "skip", on: { click: (event) => (event.preventDefault(), editor.focus()) } }, "Skip to the editor"),
  header(),
  h("aside", {}, tree.element),
  h("main", { id: "content" }, desk, page.element, past),
);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && runs.isRunning) void runs.cancel();
});
window.addEventListener("hashchange", () => void route());
editor.focus();
void route();
void tree.load().then((names) => {
  if (names) editor.complete(names);
  if (location.hash.startsWith("#/t/")) void route(); // now it is known what kind of table it is
});
