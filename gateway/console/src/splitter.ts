// A handle between two parts of the page, which the pointer drags and the arrow keys move.

import { h } from "./dom";

export interface Split {
  name: string;
  /** Under which the share is kept for the next visit. */
  key: string;
  /** The direction it moves in. */
  axis: "x" | "y";
  min: number;
  max: number;
  initial: number;
  /** The number that a position of the pointer means. */
  at: (event: PointerEvent) => number;
  /** Lays the parts out. */
  apply: (value: number) => void;
}

const STEP = 4;

export function splitter(split: Split): HTMLElement {
  const { axis, min, max } = split;
  let value = NaN;
  const handle = h("div", {
    class: `splitter ${axis}`,
    role: "separator",
    tabindex: "0",
    title: "Drag, or use the arrow keys; a double click puts it back",
    "aria-label": split.name,
    "aria-orientation": axis === "x" ? "vertical" : "horizontal",
    "aria-valuemin": min,
    "aria-valuemax": max,
  });
  const move = (to: number): void => {
    value = Math.round(Math.max(min, Math.min(max, Number.isFinite(to) ? to : split.initial)));
    handle.setAttribute("aria-valuenow", String(value));
    split.apply(value);
  };
  const keep = (): void => localStorage.setItem(split.key, String(value));
  handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
  handle.addEventListener("pointermove", (event) => {
    if (handle.hasPointerCapture(event.pointerId)) move(split.at(event));
  });
  handle.addEventListener("pointerup", keep);
  handle.addEventListener("dblclick", () => (move(split.initial), keep()));
  handle.addEventListener("keydown", (event) => {
    const more = axis === "x" ? "ArrowRight" : "ArrowDown";
    const less = axis === "x" ? "ArrowLeft" : "ArrowUp";
    const to = { [more]: value + STEP, [less]: value - STEP, Home: min, End: max }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
    keep();
  });
  move(Number(localStorage.getItem(split.key) ?? NaN));
  return handle;
}
