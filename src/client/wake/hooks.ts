/** What a host's hook tells of: its session begins, its user has typed, a tool was used. */
export const HOOKS = ["session-start", "prompt", "tool"] as const;
export type Hook = (typeof HOOKS)[number];
