// The statements that were run together, one after another, and the result of each.

import type { Api, Problem } from "./api";
import { h } from "./dom";
import { Result, type Tab } from "./result";
import type { Part } from "./statements";

const TITLE_CHARACTERS = 40;

export class Runs {
  readonly element = h("section", { class: "results", "aria-label": "Result" });
  private readonly strip = h("div", { class: "strip", role: "tablist", "aria-label": "Results" });
  private results: Result[] = [];
  private shown: Result | null = null;
  /** Whether what is shown follows what is run. */
  private follows = true;
  private number = 0;

  /**
   * @param onChange Called with the id of the statement that is shown, once it has one.
   * @param onProblem Called with what a statement failed with.
   */
  constructor(
    private readonly api: Api,
    private readonly onChange: (id: string) => void,
    private readonly onProblem: (problem: Problem, part: Part) => void,
  ) {
    this.element.append(welcome());
  }

  get isRunning(): boolean {
    return this.results.some((result) => result.isRunning);
  }

  /** Runs statements of a text in order, up to the first that fails; later ones take their place. */
  async run(parts: Part[], text: string): Promise<void> {
    const number = this.begin(parts, text);
    for (const result of this.results) {
      if (this.follows) this.show(result);
      const worked = await result.run();
      if (number !== this.number) return;
      if (!worked) return this.skipRest(result);
    }
  }

  /** Shows a statement that was submitted before, here or elsewhere. */
  async open(id: string, part: Part, text: string): Promise<void> {
    const before = this.results.find((result) => result.id === id);
    if (before) return this.show(before);
    this.begin([part], text);
    await this.shown!.open(id);
  }

  /** Shows what a statement would read, and where. */
  explain(part: Part, text: string): void {
    this.begin([part], text, "plan");
  }

  async cancel(): Promise<void> {
    await Promise.all(this.results.map((result) => result.cancel()));
  }

  private begin(parts: Part[], text: string, tab?: Tab): number {
    const last = this.shown?.tab ?? "rows";
    for (const result of this.results) result.close();
    const chosen = tab ?? (last === "receipt" ? "rows" : last);
    this.follows = true;
    this.results = parts.map((part) => {
      const result: Result = new Result(this.api, part, text, chosen, {
        changed: () => this.changed(result),
        failed: (problem) => this.onProblem(problem, part),
      });
      return result;
    });
    this.show(this.results[0]!);
    return ++this.number;
  }

  private skipRest(failed: Result): void {
    for (const result of this.results.slice(this.results.indexOf(failed) + 1)) {
      result.skip(`Not run, as statement ${this.results.indexOf(failed) + 1} ${failed.summary === "canceled" ? "was canceled" : "failed"}.`);
    }
  }

  private changed(result: Result): void {
    if (result === this.shown && result.id) this.onChange(result.id);
    this.drawStrip();
  }

  private show(result: Result): void {
    this.shown = result;
    this.element.replaceChildren(...(this.results.length > 1 ? [this.strip] : []), result.element);
    result.show();
    this.changed(result);
  }

  private drawStrip(): void {
    const hadFocus = this.strip.contains(document.activeElement);
    this.strip.replaceChildren(...this.results.map((result, number) => this.chip(result, number)));
    const selected = this.strip.querySelector<HTMLElement>("[aria-selected=true]");
    selected?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (hadFocus) selected?.focus();
  }

  private chip(result: Result, number: number): HTMLElement {
    const isShown = result === this.shown;
    const line = result.part.text.replace(/^(\s|--.*\n|\/\*[^]*?\*\/)+/, "").replaceAll(/\s+/g, " ");
    const title = line.length > TITLE_CHARACTERS ? `${line.slice(0, TITLE_CHARACTERS - 1)}…` : line;
    return h(
      "button",
      {
        type: "button",
        role: "tab",
        title: line.slice(0, 1000),
        "aria-selected": String(isShown),
        tabindex: isShown ? "0" : "-1",
        class: result.summary === "failed" || result.summary === "canceled" ? "bad" : undefined,
        on: { click: () => this.pick(number), keydown: (event) => this.step(event, number) },
      },
      h("b", {}, String(number + 1)),
      h("code", {}, title),
      h("span", { class: "muted" }, result.summary),
    );
  }

  private pick(number: number): void {
    this.follows = false;
    const result = this.results[(number + this.results.length) % this.results.length]!;
    this.show(result);
    this.strip.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
  }

  private step(event: KeyboardEvent, number: number): void {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.pick(number + by);
  }
}

/** What is shown before anything has been run. */
function welcome(): HTMLElement {
  const key = (keys: string, does: string): HTMLElement =>
    h("div", {}, h("dt", {}, ...keys.split("+").map((each) => h("kbd", {}, each))), h("dd", {}, does));
  return h(
    "div",
    { class: "welcome" },
    h("p", {}, "Rows appear here, with what they were read from: ", h("span", { class: "badge cold" }, "cold"), " files and the ", h("span", { class: "badge hot" }, "hot"), " log."),
    h(
      "dl",
      {},
      key("Ctrl+Enter", "run the statement at the cursor, or all that are selected"),
      key("Ctrl+Alt+Enter", "run all statements in order"),
      key("Ctrl+Shift+Enter", "see what it reads, and where"),
      key("Ctrl+Space", "complete a name"),
      key("Esc", "cancel on the gateway"),
    ),
  );
}
