// The console: one page over the gateway's REST interface.
//
//   #/            statements and their results        #/history     what was run
//   #/q/ID        a statement that was run before     #/running     what is run now
//   #/t/C/S/T     a table

import "./style.css";

import { HistoryPage, RunningPage } from "./activity";
import { Api, type Problem } from "./api";
import { button, h } from "./dom";
import { Editor } from "./editor";
import { Runs } from "./runs";
import { SessionBar } from "./session";
import { splitter } from "./splitter";
import type { Part } from "./statements";
import { TablePage, Tree } from "./tables";

const THEME = "seamline.theme";
const THEMES = ["auto", "light", "dark"] as const;
const TREE_PX = { min: 180, max: 560, initial: 272 };

const api = new Api(login);
const editor = new Editor(run, runAll, explain);
const runs = new Runs(api, opened, failed);
const session = new SessionBar(api);
const tree = new Tree(api, (text) => {
  location.hash = "#/";
  editor.insert(text);
});
const page = new TablePage(api, (text) => {
  editor.text = text;
  location.hash = "#/";
  run();
});
const past = new HistoryPage(api);
const now = new RunningPage(api);
const desk = h("div", { class: "desk" });
desk.append(h("div", { class: "editor-box" }, toolbar(), editor.element), deskSplitter(), runs.element);

function run(): void {
  begin(editor.current, (parts) => void runs.run(parts, editor.text));
}

function runAll(): void {
  begin(editor.all, (parts) => void runs.run(parts, editor.text));
}

function explain(): void {
  begin(editor.current, (parts) => runs.explain(parts[0]!, editor.text));
}

function begin(parts: Part[], work: (parts: Part[]) => void): void {
  if (parts.length === 0) return editor.focus();
  editor.clear();
  work(parts);
}

function opened(id: string): void {
  history.replaceState(null, "", `#/q/${id}`);
}

function failed(problem: Problem, part: Part): void {
  if (problem.location) editor.mark(problem, part, problem.location);
}

function toolbar(): HTMLElement {
  return h(
    "div",
    { class: "bar", role: "toolbar", "aria-label": "Statement" },
    button("Run", "Runs the statement at the cursor, or those that are selected (Ctrl+Enter)", run, "primary"),
    button("Run all", "Runs all statements in order, up to the first that fails (Ctrl+Alt+Enter)", runAll),
    button("Explain", "Shows what it reads, and where (Ctrl+Shift+Enter)", explain),
    session.element,
  );
}

function deskSplitter(): HTMLElement {
  const share = (event: PointerEvent): number => {
    const { top, height } = desk.getBoundingClientRect();
    return ((event.clientY - top) / height) * 100;
  };
  const apply = (value: number): void => desk.style.setProperty("--editor", `${value}%`);
  return splitter({ name: "Height of the editor", key: "seamline.editor", axis: "y", min: 12, max: 85, initial: 34, at: share, apply });
}

function treeSplitter(): HTMLElement {
  const apply = (value: number): void => document.body.style.setProperty("--tree", `${value}px`);
  return splitter({ name: "Width of the tables", key: "seamline.tree", axis: "x", ...TREE_PX, at: (event) => event.clientX, apply });
}

const pages = [
  h("a", { href: "#/" }, "Statements"),
  h("a", { href: "#/running" }, "Running"),
  h("a", { href: "#/history" }, "History"),
];

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
  const version: HTMLElement = h("span", { class: "muted" });
  api.info().then(
    (found) => (version.textContent = found.version),
    () => undefined,
  );
  return h(
    "header",
    {},
    drawer,
    h("a", { href: "#/", class: "brand" }, mark(), "Seamline"),
    version,
    h("nav", { "aria-label": "Pages" }, ...pages),
    theme,
  );
}

function mark(): HTMLElement {
  return h("span", { class: "mark", "aria-hidden": "true" }, h("i", { class: "cold" }), h("i", { class: "hot" }));
}

// --- Pages --------------------------------------------------------------------------------------

async function route(): Promise<void> {
  const [, kind = "", ...rest] = location.hash.split("/").map(decoded);
  for (const shown of [page, past, now]) shown.hide();
  const isDesk = !["t", "history", "running"].includes(kind);
  desk.hidden = !isDesk;
  page.element.hidden = kind !== "t";
  past.element.hidden = kind !== "history";
  now.element.hidden = kind !== "running";
  const current = isDesk ? "#/" : `#/${kind}`;
  for (const link of pages) {
    if (link.getAttribute("href") === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (kind === "t") page.show(tree.find(rest[0] ?? "", rest[1] ?? "", rest[2] ?? ""));
  else if (kind === "history") await past.show();
  else if (kind === "running") await now.show();
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
  const listed = await api.statements().catch(() => []);
  const text = listed.find((summary) => summary.statement_id === id)?.statement ?? "";
  if (!editor.text.includes(text)) editor.text = text;
  const from = editor.text.indexOf(text);
  await runs.open(id, { text, from, to: from + text.length }, editor.text);
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

const tables = h("aside", { id: "tables" }, tree.element);
const drawer = button("Tables", "Shows or hides the tables", () => {
  drawer.setAttribute("aria-expanded", String(tables.classList.toggle("open")));
}, "drawer");
drawer.setAttribute("aria-expanded", "false");
drawer.setAttribute("aria-controls", "tables");

document.body.append(
  h("a", { href: "#content", class: "skip", on: { click: (event) => (event.preventDefault(), editor.focus()) } }, "Skip to the editor"),
  header(),
  tables,
  treeSplitter(),
  h("main", { id: "content" }, desk, page.element, now.element, past.element),
);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && runs.isRunning) void runs.cancel();
});
window.addEventListener("hashchange", () => {
  tables.classList.remove("open");
  drawer.setAttribute("aria-expanded", "false");
  void route();
});
editor.focus();
void route();
void tree.load().then((names) => {
  if (names) editor.complete(names);
  session.offer(tree.places);
  if (location.hash.startsWith("#/t/")) void route(); // now it is known what kind of table it is
});
