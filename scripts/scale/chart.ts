/** PURE: bars of text, for a terminal and for a document. */

const WIDTH = 50;

/** One line a bar: its name, the bar, its value. */
export function chart(
  bars: readonly (readonly [name: string, value: number])[],
  textOf: (value: number) => string,
): string {
  const most = Math.max(...bars.map(([, value]) => value));
  const nameWidth = Math.max(...bars.map(([name]) => name.length));
  return bars
    .map(([name, value]) => {
      const length = most > 0 ? Math.round((value / most) * WIDTH) : 0;
      return `${name.padStart(nameWidth)} ${"█".repeat(length)}${length > 0 ? " " : ""}${textOf(value)}`;
    })
    .join("\n");
}
