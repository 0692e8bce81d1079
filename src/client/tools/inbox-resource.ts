/**
 * `interlink://inbox`: how much mail waits, for hosts that watch resources. Counts only, no peer's text; reading it marks
 * nothing. Both eras: a modern client listens, and the SDK routes; an older one subscribes here.
 */

import type { McpServer } from "@modelcontextprotocol/server";
import type { WhoAmI } from "../session/agent.ts";
import { jsonLine } from "./escape.ts";
import { isFailure, type Opening } from "./opening.ts";

export const INBOX_URI = "interlink://inbox";

export interface InboxWatch {
  /** True while the client wants to know of changes. */
  readonly isWatched: () => boolean;
  /** Tells it of one. */
  readonly update: () => Promise<void>;
}

/** @param isListening whether a modern client listens to this resource; an older one subscribes to it here */
export function offerInbox(
  server: McpServer,
  era: "legacy" | "modern",
  opening: Opening,
  isListening: () => boolean,
): InboxWatch {
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
  if (era === "modern") return { isWatched: isListening, update };

  let isSubscribed = false;
  server.server.setRequestHandler("resources/subscribe", ({ params }) => {
    if (params.uri === INBOX_URI) isSubscribed = true;
    return {};
  });
  server.server.setRequestHandler("resources/unsubscribe", ({ params }) => {
    if (params.uri === INBOX_URI) isSubscribed = false;
    return {};
  });
  return { isWatched: () => isSubscribed, update };
}

function countsOf({ unread, pending }: WhoAmI): object {
  return { unread, pending };
}
