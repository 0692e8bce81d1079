/** The MCP Inspector's CLI in the modern era. */

import { tellInspector } from "./inspector-story.ts";

tellInspector("modern");
