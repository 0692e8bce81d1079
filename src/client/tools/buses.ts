/** The tools of buses: which there are, which one is active, and leaving one. */

import * as z from "zod/v4";
import { fingerprint } from "../../protocol/address.ts";
import { Operator } from "../trust/operator.ts";
import { askOperator, canAsk } from "./ask-operator.ts";
import { shown } from "./escape.ts";
import { inputs, outputs } from "./fields.ts";
import { busLine } from "./lines.ts";
import { busesSentence, connectedSentence, disconnectedSentence, unlistedQuestion } from "./render-buses.ts";
import { refusalOf } from "./render-refusal.ts";
import { isNo, tool, type Tool } from "./tool.ts";

const BUS = z.string().min(1).max(1_300).describe("Name from list_buses, or address: https://HOST");

const connection = z.enum(["connected", "connecting", "disconnected", "evicted"]).describe("How we stand to it");

const connectBus = tool({
  name: "connect_bus",
  title: "Make a bus the active one",
  description:
    "Make a bus the active one: messages are sent by it, and discover looks there. The one before is parked: it stays connected, and its mail " +
    "comes with check_messages. Also mends a bus whose session another process has ended, or that refused us before. If it " +
    "cannot be used all stays as it is. A ninth parked bus ends the one used least recently. A bus that your operator has not named needs their word.",
  input: z.strictObject({ bus: BUS }),
  output: z.object({
    bus: z.string().describe("Our operator's name for the bus, else its address; escaped as in JSON"),
    connection,
    key: z.string().optional().describe("Fingerprint of the key that we use there"),
    feedback: outputs.feedback,
  }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  async act({ bus }, call) {
    const { agent } = call;
    const meant = await agent.findBus(bus);
    if (isNo(meant)) return meant;
    let operator: Operator | undefined;
    if (!meant.isListed) {
      // Where nobody can be asked, the file is the operator's way to say yes.
      if (!canAsk(call)) return refusalOf({ code: "unlisted_bus", detail: meant.file });
      const { name, address, key } = meant;
      const word = await askOperator(call, {
        key,
        subject: ["connect_bus", address],
        message: unlistedQuestion({ name, fingerprint: fingerprint(key) }),
        yes: "Yes: I know this bus",
        command: "",
      });
      if (!(word instanceof Operator)) return word;
      operator = word;
    }
    const connected = await agent.connectBus(bus, operator);
    if (isNo(connected)) return connected;
    const feedback = connectedSentence(connected);
    return {
      text: feedback,
      fields: {
        bus: shown(connected.name),
        connection: connected.connection,
        ...(connected.fingerprint !== undefined && { key: connected.fingerprint }),
        feedback,
      },
    };
  },
});

const disconnectBus = tool({
  name: "disconnect_bus",
  title: "Leave a bus",
  description:
    "Leave a bus, active or parked: its peers are told, and nothing connects to it again by itself, also after a restart. Mail waits there. " +
    "No other bus becomes active by that; what is on this machine can still be read.",
  input: z.strictObject({ bus: BUS.optional().describe("Name from list_buses; absent: the active one") }),
  output: z.object({
    bus: z.string().describe("The bus that was left, escaped as in JSON"),
    feedback: outputs.feedback,
  }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  async act({ bus }, { agent }) {
    const left = await agent.disconnectBus(bus);
    if (isNo(left)) return left;
    const feedback = disconnectedSentence(left.name);
    return { text: feedback, fields: { bus: shown(left.name), feedback } };
  },
});

const listBuses = tool({
  name: "list_buses",
  title: "Which buses there are",
  description:
    "The active bus, the parked ones, and those that your operator has named and that are not connected, one line of JSON each.",
  input: inputs.noArguments,
  output: z.object({
    buses: outputs.lines.describe(
      "One line of JSON for each bus: the active one first, then the parked, the latest used first",
    ),
    bad_file: z.string().optional().describe("Why the file in which your operator names buses cannot be used"),
  }),
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  async act(_args, { agent }) {
    const { buses, badFile } = await agent.listBuses();
    const lines = buses.map(busLine);
    const fault = badFile && refusalOf(badFile).message;
    return {
      text: [busesSentence(buses), ...(fault === undefined ? [] : [fault]), ...lines].join("\n"),
      fields: { buses: lines, ...(fault !== undefined && { bad_file: fault }) },
    };
  },
});

export const busTools: readonly Tool[] = [connectBus, disconnectBus, listBuses];
