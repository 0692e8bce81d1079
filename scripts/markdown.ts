/** Numbers and tables as the documents of this project have them. */

/** At most three digits that say something, with spaces between thousands. */
export function numberText(value: number): string {
  const rounded = value >= 1_000 ? Math.round(value) : Number(value.toPrecision(3));
  const [whole = "", fraction] = String(rounded).split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, " ");
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

/** A table with its columns aligned, as the formatter of this project leaves it. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const [head, ...body] = rows;
  return [line(head!), line(widths.map((width) => "-".repeat(width))), ...body.map(line)].join("\n");
}
