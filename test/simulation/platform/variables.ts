/** The bus's variables, as wrangler would give them. */

export const BUS_HOST = "127.0.0.1:9440";
export const BUS_ORIGIN = `http://${BUS_HOST}`;

export const VARIABLES: Readonly<Record<string, string>> = {
  AUDIENCE: BUS_ORIGIN,
  HOSTS: BUS_HOST,
  ADMISSION: "open",
  LOG: "faults",
  DIRECTORY_SHARDS: "2",
};
