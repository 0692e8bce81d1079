/** A file's text, as Vite gives it to a test that has no disk. */
declare module "*?raw" {
  const text: string;
  export default text;
}
