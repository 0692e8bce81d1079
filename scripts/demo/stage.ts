/** Who takes part in the demo, and how what they do is told. */

import type { Variables } from "../local-bus.ts";
import { Person, type Answer, type Session } from "./session.ts";
import { Transcript } from "./transcript.ts";

type Arguments = Record<string, unknown>;

/** One conversation: who takes part, and where it is told. */
export class Stage {
  readonly say = new Transcript();
  readonly alice: Person;
  readonly bob: Person;
  /** Two sessions of Alice's, and one of Bob's. */
  readonly laptop: Session;
  readonly desktop: Session;
  readonly ci: Session;

  /** @param vars the limits that the bus was started with @param homeOf an empty folder of a person's */
  constructor({ url, vars, homeOf }: { url: string; vars: Variables; homeOf: (name: string) => string }) {
    const personOf = (name: string) => new Person(name, { home: homeOf(name), url, vars });
    [this.alice, this.bob] = [personOf("alice"), personOf("bob")];
    [this.laptop, this.desktop] = [this.alice.session("laptop"), this.alice.session("desktop")];
    this.ci = this.bob.session("ci");
  }

  get sessions(): readonly Session[] {
    return [this.laptop, this.desktop, this.ci];
  }

  /** A call of a tool, as its model makes it, and the answer that the model reads. */
  async calls(session: Session, tool: string, args: Arguments = {}): Promise<Answer> {
    return this.#told(session, tool, args, await session.call(tool, args));
  }

  /** The same, called until the answer is what is waited for; only that one is told. */
  async waits(session: Session, tool: string, args: Arguments, isThere: (answer: Answer) => boolean): Promise<Answer> {
    return this.#told(session, tool, args, await session.until(tool, args, isThere));
  }

  /** Reads so many messages, once all of them have come. */
  async reads(session: Session, count: number): Promise<Record<string, unknown>[]> {
    await session.until("whoami", {}, ({ fields }) => fields["unread"] >= count);
    return linesOf(await this.calls(session, "check_messages"), "messages");
  }

  /** A person types the command that an answer names. */
  async types(person: Person, { text }: Answer): Promise<void> {
    const [command = ""] = /interlink-edge pair accept \S+ --as \w+/.exec(text) ?? [];
    const { typed, shown } = await person.type(command);
    this.say.told(`${person.name}, a human`, `$ ${typed}`, shown);
  }

  #told(session: Session, tool: string, args: Arguments, answer: Answer): Answer {
    const shown = Object.keys(args).length === 0 ? "" : ` ${JSON.stringify(args)}`;
    this.say.told(session.label, tool + shown, answer.text);
    return answer;
  }
}

/** Session → presence, as `discover` answers. */
export function presencesOf(answer: Answer): Record<string, unknown> {
  return Object.fromEntries(linesOf(answer, "sessions").map(({ session, presence }) => [session, presence]));
}

/** The lines of JSON in an answer, read. */
export function linesOf({ fields }: Answer, field: string): Record<string, unknown>[] {
  return (fields[field] as string[]).map((line) => JSON.parse(line) as Record<string, unknown>);
}
