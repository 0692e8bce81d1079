/** The MCP Inspector's CLI in the legacy era. */

import { tellInspector } from "./inspector-story.ts";

tellInspector("legacy");
