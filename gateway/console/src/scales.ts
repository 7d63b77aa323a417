// Numbers and moments along the axes of charts and pictures.

const TICKS = 5;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Round numbers that enclose values, and one more value if it is given. */
export function ticks(also: number | null, values: number[], most = TICKS): number[] {
  const all = also === null ? values : [...values, also];
  const low = all.reduce((a, b) => Math.min(a, b));
  const high = all.reduce((a, b) => Math.max(a, b));
  const spread = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(spread / most));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => spread / each <= most) ?? spread;
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step));
  return Array.from({ length: last - first + 1 }, (_, number) => (first + number) * step);
}

const SECOND_MS = 1000;
const MINUTE_MS = 60_000;
const STEPS_MS = [
  ...[1, 2, 5, 15, 30].map((each) => each * SECOND_MS),
  ...[1, 2, 5, 15, 30].map((each) => each * MINUTE_MS),
  ...[1, 3, 6, 12].map((each) => each * HOUR_MS),
  ...[1, 2, 7, 14, 30, 90, 365, 1825, 3650, 36500].map((each) => each * DAY_MS),
];

export interface Moments {
  ticks: number[];
  /** As much of ISO 8601 in UTC as tells the ticks apart. */
  label: (ms: number) => string;
}

/** Round moments between two others. */
export function moments(low: number, high: number, most: number): Moments {
  const step = STEPS_MS.find((each) => (high - low) / each < most) ?? STEPS_MS.at(-1)!;
  const first = Math.ceil(low / step);
  const inside = Math.max(0, Math.floor(high / step) - first + 1);
  const round = Array.from({ length: inside }, (_, number) => (first + number) * step);
  const [from, to] = step >= DAY_MS ? [0, 10] : [high - low > 12 * HOUR_MS ? 5 : 11, step < MINUTE_MS ? 19 : 16];
  const label = (ms: number): string => `${new Date(ms).toISOString().slice(from, to)}${step < DAY_MS ? "Z" : ""}`;
  return { ticks: round.length > 0 ? round : [low], label };
}

const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, notation: "compact" });
const ROUGH = new Intl.NumberFormat("en", { notation: "compact" });
const EXACT = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

export function short(value: number): string {
  return SHORT.format(Object.is(value, -0) ? 0 : value);
}

/** A number in a few characters. */
export function rough(value: number): string {
  return ROUGH.format(value);
}

export function exact(value: number): string {
  return EXACT.format(value);
}

/** The milliseconds of a date or a time as results show them; without a zone, as if it were UTC. */
export function instant(text: string): number {
  const hasZone = /[zZ]$|[+-]\d\d(:?\d\d)?$/.test(text);
  return Date.parse(text.includes(":") && !hasZone ? `${text.replace(" ", "T")}Z` : text);
}
