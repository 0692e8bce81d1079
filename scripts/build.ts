/** `npm run build`: the Worker's bundle, as a deployment would upload it, made without network. */

import { buildBundle } from "./local-bus.ts";

console.log(await buildBundle());
