// Elements are built from text and elements, never from markup: what a record holds is shown, not run.

type Child = Node | string | null | undefined | false;

interface Options {
  on?: Partial<{ [Name in keyof HTMLElementEventMap]: (event: HTMLElementEventMap[Name]) => void }>;
  [attribute: string]: unknown;
}

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  options: Options = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value as object)) {
        made.addEventListener(event, listener as EventListener);
      }
    } else if (value === true) made.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) {
      made.setAttribute(name, String(value));
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function svg(tag: string, attributes: Record<string, string | number>, ...children: Child[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const WHOLE = new Intl.NumberFormat("en");
const BYTES = ["B", "kB", "MB", "GB", "TB"];

export function count(value: number): string {
  return WHOLE.format(value);
}

export function bytes(value: number): string {
  let power = 0;
  while (value >= 1000 && power < BYTES.length - 1) {
    value /= 1000;
    power++;
  }
  return `${power === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${BYTES[power]}`;
}

export function seconds(value: number): string {
  return value < 10 ? `${value.toFixed(2)} s` : `${value.toFixed(0)} s`;
}

/** A moment as results show it: ISO 8601 in UTC, to the second. */
export function moment(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** How long something took or has been, in its largest unit. */
export function age(s: number): string {
  const units: [number, string][] = [[86400, "day"], [3600, "hour"], [60, "minute"]];
  for (const [size, name] of units) if (s >= 2 * size) return plural(Math.round(s / size), name);
  return plural(Math.max(0, Math.round(s)), "second");
}

export function button(label: string, title: string, click: () => void, kind = ""): HTMLButtonElement {
  return h("button", { type: "button", title, class: kind || undefined, on: { click } }, label);
}

export function plural(number: number, word: string): string {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** Copies a text to the clipboard, even without TLS; returns whether that worked. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const before = document.activeElement;
    const area = h("textarea", { class: "skip", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const worked = document.execCommand("copy");
    area.remove();
    if (before instanceof HTMLElement) before.focus();
    return worked;
  }
}

/** A name as SQL writes it. */
export function quoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
