/** A statement in a text of several: its text without the semicolon, and where that begins. */
export interface Part {
  text: string;
  from: number;
  to: number;
}

/** Splits at semicolons that are not inside quotes or comments; comments alone are no statement. */
export function split(text: string): Part[] {
  const parts: Part[] = [];
  let from = 0;
  let at = 0;
  let hasCode = false;
  const end = (to: number): void => {
    const piece = text.slice(from, to);
    const skipped = piece.length - piece.trimStart().length;
    if (hasCode) parts.push({ text: piece.trim(), from: from + skipped, to });
    hasCode = false;
  };
  while (at < text.length) {
    const two = text.slice(at, at + 2);
    const one = text[at]!;
    if (one === "'" || one === '"') {
      const close = text.indexOf(one, at + 1);
      at = close < 0 ? text.length : close + 1; // a doubled quote is two texts side by side
      hasCode = true;
    } else if (two === "--") {
      const close = text.indexOf("\n", at);
      at = close < 0 ? text.length : close + 1;
    } else if (two === "/*") {
      const close = text.indexOf("*/", at + 2);
      at = close < 0 ? text.length : close + 2;
    } else if (one === ";") {
      end(at);
      at++;
      from = at;
    } else {
      hasCode ||= one.trim() !== "";
      at++;
    }
  }
  end(text.length);
  return parts;
}

/** A position in a statement, as one in the text that the statement is a part of. */
export function inText(text: string, part: Part, place: { line: number; column: number }): { line: number; column: number } {
  const before = text.slice(0, part.from).split("\n");
  const shift = place.line === 1 ? before.at(-1)!.length : 0;
  return { line: before.length + place.line - 1, column: place.column + shift };
}

/** The statement a place is in, or the one before it. */
export function at(text: string, place: number): Part | undefined {
  const parts = split(text);
  return parts.find((part) => place <= part.to) ?? parts.at(-1);
}

/** The statements of a part of a text, with their places in the whole text. */
export function inside(text: string, from: number, to: number): Part[] {
  return split(text.slice(from, to)).map((part) => ({ text: part.text, from: from + part.from, to: from + part.to }));
}
