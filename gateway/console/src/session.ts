// What the session of this tab has set, beside the editor, where it can be changed and taken back.

import type { Api } from "./api";
import { button, h, quoted } from "./dom";
import { named, problemBox } from "./problems";

const VALUE_CHARACTERS = 24;

interface Property {
  Name: string;
  Default: string;
  Description: string;
}

export class SessionBar {
  readonly element = h("div", { class: "session", role: "group", "aria-label": "Session" });
  private readonly panel = h("div", { class: "panel", popover: "auto", id: "session-panel", role: "dialog", "aria-label": "Session of this tab" });
  private readonly said = h("div", {});
  private readonly chips = h("div", { class: "chips" });
  private properties: Property[] | null = null;
  private places: string[][] = [];
  private readonly opener = button("Session", "What this tab has set, and what it could set", () => void this.open());

  constructor(private readonly api: Api) {
    this.opener.setAttribute("popovertarget", "session-panel");
    this.panel.addEventListener("toggle", () => this.put());
    this.element.append(this.chips, this.opener, this.panel);
    api.onSession = () => this.draw();
    this.draw();
  }

  /** Takes the catalogs and schemas that names may be in. */
  offer(places: string[][]): void {
    this.places = places;
  }

  private draw(): void {
    const { catalog, schema, properties, prepared } = this.api.session;
    const place = [catalog, schema].filter(Boolean).join(".");
    const chips = [
      place && this.chip("in", place, () => this.api.takeBack("place")),
      ...Object.entries(properties).map(([name, value]) => this.chip(name, String(value), () => this.api.takeBack({ property: name }))),
      ...Object.keys(prepared).map((name) => this.chip("prepared", name, () => this.api.takeBack({ prepared: name }))),
    ];
    const hadFocus = this.chips.contains(document.activeElement);
    this.chips.replaceChildren(...chips.filter((made) => made instanceof HTMLElement));
    if (hadFocus) this.opener.focus();
    if (this.panel.matches(":popover-open")) this.fill();
  }

  private chip(name: string, value: string, takeBack: () => void): HTMLElement {
    const shown = value.length > VALUE_CHARACTERS ? `${value.slice(0, VALUE_CHARACTERS - 1)}…` : value;
    const label = `Take back ${name} ${value.slice(0, 200)}`;
    return h(
      "span",
      { class: `chip ${name === "token" ? "pinned" : ""}`, title: `${name} ${value.slice(0, 1000)}` },
      h("span", { class: "muted" }, name),
      " ",
      shown,
      h("button", { type: "button", "aria-label": label, title: "Take back", on: { click: takeBack } }, "×"),
    );
  }

  // --- The panel --------------------------------------------------------------------------------

  private async open(): Promise<void> {
    this.fill();
    try {
      this.properties ??= await this.api.rows<Property>("SHOW SESSION");
      this.fill();
    } catch (error) {
      this.said.replaceChildren(problemBox(named(error)));
    }
  }

  /** Puts the panel below its button, within the window. */
  private put(): void {
    const { bottom, right } = this.opener.getBoundingClientRect();
    this.panel.style.top = `${bottom + 4}px`;
    this.panel.style.left = `${Math.max(8, Math.min(right - this.panel.offsetWidth, innerWidth - this.panel.offsetWidth - 8))}px`;
    this.panel.style.maxHeight = `${innerHeight - bottom - 16}px`;
  }

  private fill(): void {
    const { after } = this.api.session;
    const focused = document.activeElement?.id;
    this.panel.replaceChildren(
      h("h2", {}, "Session of this tab"),
      h("p", { class: "muted" }, "What is set here, or by SET SESSION and USE, applies to the statements of this tab."),
      this.said,
      h("div", { class: "settings" }, this.placeRow(), ...(this.properties ?? []).filter(({ Name }) => Name !== "after").map((property) => this.row(property))),
      h(
        "p",
        { class: "seen" },
        after ? "Results never fall behind what this tab has already seen or written." : "This tab has seen nothing yet.",
        after && button("Forget", "Lets results be older than those this tab has seen", () => this.api.takeBack("after")),
      ),
    );
    this.put();
    if (focused) document.getElementById(focused)?.focus();
  }

  private placeRow(): HTMLElement {
    const { catalog, schema } = this.api.session;
    const chosen = JSON.stringify([catalog, schema]);
    const options = this.places.map((place) => {
      const value = JSON.stringify(place);
      return h("option", { value, selected: value === chosen }, place.join("."));
    });
    const list = h("select", { id: "session-place" }, h("option", { value: "" }, "default"), ...options);
    list.addEventListener("change", () => {
      if (!list.value) return this.api.takeBack("place");
      const names = JSON.parse(list.value) as string[];
      void this.set(`USE ${names.map(quoted).join(".")}`);
    });
    return setting("session-place", "catalog.schema", list, "Where names without a catalog and a schema are looked up");
  }

  private row({ Name: name, Default: initial, Description: description }: Property): HTMLElement {
    const id = `session-${name}`;
    const held = this.api.session.properties[name];
    const choices = /: ([a-z]+(?:, [a-z]+)+)$/.exec(description)?.[1]?.split(", ");
    const control = choices
      ? h("select", { id }, ...["", ...choices].map((value) => h("option", { value, selected: value === (held ?? "") }, value || `default: ${initial}`)))
      : h("input", { id, value: held === undefined ? "" : String(held), placeholder: initial || "not set", spellcheck: "false", autocomplete: "off" });
    control.addEventListener("change", () => {
      if (control.value) void this.set(`SET SESSION ${name} = '${control.value.replaceAll("'", "''")}'`);
      else this.api.takeBack({ property: name });
    });
    return setting(id, name, control, description);
  }

  private async set(statement: string): Promise<void> {
    this.said.replaceChildren();
    try {
      await this.api.ask(statement);
    } catch (error) {
      this.said.replaceChildren(problemBox({ ...named(error), location: null }));
    }
  }
}

function setting(id: string, name: string, control: HTMLElement, description: string): HTMLElement {
  control.setAttribute("aria-describedby", `${id}-help`);
  return h("div", {}, h("label", { for: id }, name), control, h("p", { class: "muted", id: `${id}-help` }, description));
}
