/** The cells of RFC 4180 text; an empty cell that is not quoted is null. */
export function cells(text: string): (string | null)[][] {
  const rows: (string | null)[][] = [];
  let row: (string | null)[] = [];
  let at = 0;
  while (at < text.length) {
    let cell: string | null;
    if (text[at] === '"') {
      let value = "";
      for (let from = at + 1; ; ) {
        const quote = text.indexOf('"', from);
        if (quote < 0) throw new Error("a quoted cell is not terminated");
        value += text.slice(from, quote);
        if (text[quote + 1] !== '"') {
          at = quote + 1;
          break;
        }
        value += '"';
        from = quote + 2;
      }
      cell = value;
    } else {
      let end = at;
      while (end < text.length && text[end] !== "," && text[end] !== "\r" && text[end] !== "\n") end++;
      cell = end === at ? null : text.slice(at, end);
      at = end;
    }
    row.push(cell);
    if (text[at] === ",") {
      at++;
      if (at === text.length) row.push(null);
      continue;
    }
    if (text[at] === "\r") at++;
    if (text[at] === "\n") at++;
    rows.push(row);
    row = [];
  }
  if (row.length > 0) rows.push(row);
  return rows;
}

/** Rows as spreadsheets take them from the clipboard: tabs between cells. */
export function tabbed(rows: (string | null)[][]): string {
  const cell = (value: string | null): string =>
    value === null ? "" : /[\t\r\n"]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  return rows.map((row) => row.map(cell).join("\t")).join("\n");
}
