/**
 * PURE: which bus URLs are acceptable, and which addresses a bus's name may lead to.
 *
 * A bus URL comes from a setting or an invite, so it may be meant to make us knock at a service of the own
 * network. It is judged after the WHATWG parser has read it: `127.1`, `0x7f000001` and `2130706433` are all
 * 127.0.0.1 to whoever connects. What a name resolves to is judged when it is dialled, by the same table.
 */

import { BlockList, isIP } from "node:net";

/** Where an address leads: this machine, a network that is not everyone's, or the internet. */
export type Reach = "loopback" | "private" | "public";

/** A bus, by its origin. Made only by {@link parseBusUrl}. */
export interface BusUrl {
  /** `https://bus.example` or `http://127.0.0.1:8787`: canonical, and the default audience of tokens. */
  readonly origin: string;
  /** Host without brackets, for a socket. */
  readonly host: string;
  /** What a name must resolve to; an address in the URL was judged already. */
  readonly reach: "loopback" | "public" | "any";
}

export type BusUrlRefusalCode =
  /** Not `https://host` or `http://host`, with an optional port. */
  | "not_a_url"
  /** A name or password in it: they would end up in logs, and `https://bus.example@evil` reads as another host. */
  | "userinfo"
  /** A path, query or fragment: a bus is an origin, and a secret must not ride in a URL. */
  | "not_an_origin"
  /** http beyond this machine: anyone on the way could read and hold back mail. */
  | "not_https"
  /** A host that ends in a dot: another spelling of the same name, so another audience. */
  | "bad_host"
  /** An address of a private, link-local, metadata or otherwise special network. */
  | "private_address";

export interface BusUrlRefusal {
  readonly refusal: BusUrlRefusalCode;
}

export interface BusUrlOptions {
  /** Takes https at private addresses too: a bus on a company's or a tailnet's own network. Default: false. */
  readonly allowPrivate?: boolean;
}

const URL_MAX_CHARS = 300;
const AUTHORITY = /^https?:\/\/[^/\\?#@\s]+/i;

/** IPv4 that is no host of the internet (IANA's special-purpose registry), 169.254.169.254 among it. */
const SPECIAL_V4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];
const SPECIAL_V6: readonly (readonly [string, number])[] = [
  ["::", 96], // unspecified, loopback, IPv4-compatible
  ["64:ff9b:1::", 48],
  ["100::", 64],
  ["2001::", 32], // Teredo: an IPv4 address inside
  ["2001:db8::", 32],
  ["2002::", 16], // 6to4: the same
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
];

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4"); // covers ::ffff:127.0.0.1 as well
loopback.addAddress("::1", "ipv6");

const special = new BlockList();
for (const [net, prefix] of SPECIAL_V4) {
  special.addSubnet(net, prefix, "ipv4");
  // NAT64, which carries all of IPv4 on an IPv6-only network: as good or bad as what it carries.
  special.addSubnet(`64:ff9b::${net}`, 96 + prefix, "ipv6");
}
for (const [net, prefix] of SPECIAL_V6) special.addSubnet(net, prefix, "ipv6");

/** Where an IP address leads. @param address as a resolver gives it, without brackets; a zone is ignored */
export function reachOf(address: string): Reach {
  const [bare = ""] = address.split("%");
  const family = isIP(bare) === 6 ? "ipv6" : "ipv4";
  if (loopback.check(bare, family)) return "loopback";
  return special.check(bare, family) ? "private" : "public";
}

/** Reads a bus URL, or says why it is none. Never throws. */
export function parseBusUrl(text: string, { allowPrivate = false }: BusUrlOptions = {}): BusUrl | BusUrlRefusal {
  if (text.length > URL_MAX_CHARS || !/^https?:\/\//i.test(text)) return { refusal: "not_a_url" };
  // Before parsing: the parser drops an empty name, query or fragment, and takes a backslash or a line break away.
  if (text.includes("@")) return { refusal: "userinfo" };
  const [authority] = AUTHORITY.exec(text) ?? [];
  if (authority === undefined || !URL.canParse(text) || /[\s\\]/.test(text)) return { refusal: "not_a_url" };
  const rest = text.slice(authority.length);
  if (rest !== "" && rest !== "/") return { refusal: "not_an_origin" };

  const { origin, hostname, protocol } = new URL(text);
  if (hostname.endsWith(".")) return { refusal: "bad_host" };
  const host = hostname.replace(/^\[|\]$/g, "");
  // `localhost` is a name, but one that may lead nowhere else: what it resolves to is held to that.
  const literal = isIP(host) > 0 ? reachOf(host) : host === "localhost" ? "loopback" : undefined;
  if (literal === "loopback") return { origin, host, reach: "loopback" };
  if (protocol !== "https:") return { refusal: "not_https" };
  if (literal === "private" && !allowPrivate) return { refusal: "private_address" };
  return { origin, host, reach: allowPrivate ? "any" : "public" };
}
