/** One thing that doctor has looked at. */

export interface Check {
  /** What was looked at; stable, for programs. */
  readonly name: string;
  readonly state: "ok" | "warning" | "error";
  readonly says: string;
  /** The command that mends it. */
  readonly mend?: string;
}
