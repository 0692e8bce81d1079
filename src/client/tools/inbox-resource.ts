/**
 * `interlink://inbox`: how much mail waits, for hosts that watch resources. Counts only, no peer's text; reading it marks
 * nothing. Both eras: a modern client listens, and the SDK routes; an older one subscribes here.
 */

import type { McpServer } from "@modelcontextprotocol/server";
import type { WhoAmI } from "../session/agent.ts";
import { jsonLine } from "./escape.ts";
import { isFailure, type Opening } from "./opening.ts";

export const INBOX_URI = "interlink://inbox";

/** @returns tells the client that the inbox changed, if it wants to know */
export function offerInbox(server: McpServer, era: "legacy" | "modern", opening: Opening): () => Promise<void> {
  server.registerResource(
    "inbox",
    INBOX_URI,
    {
      title: "Inbox",
      description: "How many messages are unread. check_messages reads them.",
      mimeType: "application/json",
    },
    async () => {
      const agent = await opening.agent();
      const counts = isFailure(agent) ? { error: agent } : countsOf(await agent.whoami());
      return { contents: [{ uri: INBOX_URI, mimeType: "application/json", text: jsonLine(counts) }] };
    },
  );
  const update = () => server.server.sendResourceUpdated({ uri: INBOX_URI });
  // Whoever did not listen is passed over by the SDK.
  if (era === "modern") return update;

  let isSubscribed = false;
  server.server.setRequestHandler("resources/subscribe", ({ params }) => {
    if (params.uri === INBOX_URI) isSubscribed = true;
    return {};
  });
  server.server.setRequestHandler("resources/unsubscribe", ({ params }) => {
    if (params.uri === INBOX_URI) isSubscribed = false;
    return {};
  });
  return async () => {
    if (isSubscribed) await update();
  };
}

function countsOf({ unread, pending }: WhoAmI): object {
  return { unread, pending };
}
