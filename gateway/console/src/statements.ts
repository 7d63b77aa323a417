/** A statement in a text of several: its text without the semicolon, and where that begins. */
export interface Part {
  text: string;
  from: number;
  to: number;
}

/** Splits at semicolons that are not inside quotes or comments. */
export function split(text: string): Part[] {
  const parts: Part[] = [];
  let from = 0;
  let at = 0;
  const end = (to: number): void => {
    const piece = text.slice(from, to);
    const skipped = piece.length - piece.trimStart().length;
    if (piece.trim()) parts.push({ text: piece.trim(), from: from + skipped, to });
  };
  while (at < text.length) {
    const two = text.slice(at, at + 2);
    const one = text[at]!;
    if (one === "'" || one === '"') {
      const close = text.indexOf(one, at + 1);
      at = close < 0 ? text.length : close + 1; // a doubled quote is two texts side by side
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
    } else at++;
  }
  end(text.length);
  return parts;
}

/** The statement a place is in, or the one before it. */
export function at(text: string, place: number): Part | undefined {
  const parts = split(text);
  return parts.find((part) => place <= part.to) ?? parts.at(-1);
}
