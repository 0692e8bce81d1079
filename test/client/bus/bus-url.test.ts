import type { LookupAddress } from "node:dns";
import { describe, expect, it } from "vitest";
import { parseBusUrl, reachOf, type BusUrl } from "../../../src/client/bus/bus-url.ts";
import { FORBIDDEN_ADDRESS, guardedLookup } from "../../../src/client/bus/guarded-lookup.ts";

describe("a bus URL", () => {
  it.each([
    { text: "https://bus.example", origin: "https://bus.example", reach: "public", why: "the plain case" },
    { text: "https://bus.example/", origin: "https://bus.example", reach: "public", why: "a slash is no path" },
    { text: "HTTPS://BUS.Example:443", origin: "https://bus.example", reach: "public", why: "one spelling" },
    { text: "https://bus.example:8443", origin: "https://bus.example:8443", reach: "public", why: "a port" },
    { text: "https://bücher.example", origin: "https://xn--bcher-kva.example", reach: "public", why: "one audience" },
    { text: "https://1.1.1.1", origin: "https://1.1.1.1", reach: "public", why: "a public address" },
    { text: "https://[2606:4700::1111]", origin: "https://[2606:4700::1111]", reach: "public", why: "IPv6" },
    { text: "http://127.0.0.1:8787", origin: "http://127.0.0.1:8787", reach: "loopback", why: "this machine" },
    { text: "http://localhost:8787", origin: "http://localhost:8787", reach: "loopback", why: "its name" },
    { text: "http://[::1]:8787", origin: "http://[::1]:8787", reach: "loopback", why: "IPv6" },
    { text: "http://127.1", origin: "http://127.0.0.1", reach: "loopback", why: "short, judged as what it is" },
    { text: "http://0x7f000001", origin: "http://127.0.0.1", reach: "loopback", why: "hexadecimal" },
    { text: "http://2130706433", origin: "http://127.0.0.1", reach: "loopback", why: "one number" },
    { text: "http://0177.0.0.1", origin: "http://127.0.0.1", reach: "loopback", why: "octal" },
    { text: "http://%31%32%37.0.0.1", origin: "http://127.0.0.1", reach: "loopback", why: "escaped" },
    { text: "http://[::ffff:127.0.0.1]", origin: "http://[::ffff:7f00:1]", reach: "loopback", why: "mapped" },
    { text: "https://127.0.0.1", origin: "https://127.0.0.1", reach: "loopback", why: "TLS on this machine" },
  ])("takes $text: $why", ({ text, origin, reach }) => {
    expect(parseBusUrl(text)).toMatchObject({ origin, reach });
  });

  it.each([
    { text: "", refusal: "not_a_url", why: "nothing" },
    { text: "bus.example", refusal: "not_a_url", why: "no scheme" },
    { text: "wss://bus.example", refusal: "not_a_url", why: "the socket follows from the origin" },
    { text: "file:///etc/passwd", refusal: "not_a_url", why: "another scheme" },
    { text: "https:bus.example", refusal: "not_a_url", why: "the parser would take it" },
    { text: "https:/bus.example", refusal: "not_a_url", why: "the same" },
    { text: "https://", refusal: "not_a_url", why: "no host" },
    { text: "https:///bus.example", refusal: "not_a_url", why: "the parser would take it" },
    { text: "https://bus.exa\nmple", refusal: "not_a_url", why: "the parser would take the line break away" },
    { text: " https://bus.example", refusal: "not_a_url", why: "the same of spaces" },
    { text: "https://bus.example\\@evil.example", refusal: "userinfo", why: "a backslash is a slash to the parser" },
    { text: "https://bus.example\\path", refusal: "not_a_url", why: "the same" },
    { text: "https://bus.example:99999", refusal: "not_a_url", why: "no port" },
    { text: "https://[::1", refusal: "not_a_url", why: "half an address" },
    { text: `https://${"a".repeat(300)}.example`, refusal: "not_a_url", why: "too long" },
    { text: "https://user@bus.example", refusal: "userinfo", why: "a name" },
    { text: "https://user:secret@bus.example", refusal: "userinfo", why: "a password" },
    { text: "https://@bus.example", refusal: "userinfo", why: "an empty name, which the parser drops" },
    { text: "https://bus.example@evil.example", refusal: "userinfo", why: "reads as another host" },
    { text: "https://bus.example/path", refusal: "not_an_origin", why: "a path" },
    { text: "https://bus.example/.", refusal: "not_an_origin", why: "one that the parser drops" },
    { text: "https://bus.example//", refusal: "not_an_origin", why: "a path" },
    { text: "https://bus.example?token=x", refusal: "not_an_origin", why: "a query" },
    { text: "https://bus.example/?", refusal: "not_an_origin", why: "an empty one" },
    { text: "https://bus.example#x", refusal: "not_an_origin", why: "a fragment" },
    { text: "https://bus.example.", refusal: "bad_host", why: "another spelling of the name" },
    { text: "http://localhost.", refusal: "bad_host", why: "the same" },
    { text: "http://bus.example", refusal: "not_https", why: "plain over the internet" },
    { text: "http://192.168.0.1", refusal: "not_https", why: "plain over the own network" },
    { text: "http://127.0.0.1.nip.example", refusal: "not_https", why: "a name that looks like loopback" },
    { text: "http://localhost.evil.example", refusal: "not_https", why: "the same" },
    { text: "http://foo.localhost", refusal: "not_https", why: "resolvers do not agree where it leads" },
    { text: "http://0.0.0.0:8787", refusal: "not_https", why: "any address is no loopback" },
    { text: "https://10.1", refusal: "private_address", why: "10.0.0.1" },
    { text: "https://0xa9fea9fe", refusal: "private_address", why: "metadata, hexadecimal" },
    { text: "https://2852039166", refusal: "private_address", why: "metadata, one number" },
    { text: "https://169.254.169.254", refusal: "private_address", why: "metadata" },
    { text: "https://[fd00:ec2::254]", refusal: "private_address", why: "metadata, IPv6" },
    { text: "https://192.168.1.1", refusal: "private_address", why: "the own network" },
    { text: "https://100.100.1.1", refusal: "private_address", why: "carrier's or tailnet's" },
    { text: "https://0.0.0.0", refusal: "private_address", why: "this host, whichever" },
    { text: "https://[::]", refusal: "private_address", why: "the same" },
    { text: "https://[::ffff:10.0.0.1]", refusal: "private_address", why: "mapped" },
    { text: "https://[64:ff9b::a00:1]", refusal: "private_address", why: "10.0.0.1 through NAT64" },
    { text: "https://[fe80::1]", refusal: "private_address", why: "link-local" },
    { text: "https://[2002:a00:1::]", refusal: "private_address", why: "6to4" },
  ])("refuses $text as $refusal: $why", ({ text, refusal }) => {
    expect(parseBusUrl(text)).toEqual({ refusal });
  });

  it("at a private address is taken where that is meant, by https all the same", () => {
    const options = { allowPrivate: true };
    expect(parseBusUrl("https://10.0.0.1", options)).toMatchObject({ origin: "https://10.0.0.1", reach: "any" });
    expect(parseBusUrl("http://10.0.0.1", options)).toEqual({ refusal: "not_https" });
  });
});

it.each([
  ["8.8.8.8", "public"],
  ["172.15.255.255", "public"],
  ["172.16.0.0", "private"],
  ["172.32.0.0", "public"],
  ["100.63.255.255", "public"],
  ["100.128.0.0", "public"],
  ["224.0.0.1", "private"],
  ["255.255.255.255", "private"],
  ["127.255.255.255", "loopback"],
  ["::1", "loopback"],
  ["::ffff:8.8.8.8", "public"],
  ["64:ff9b::808:808", "public"],
  ["64:ff9b::7f00:1", "private"],
  ["fe80::1%eth0", "private"],
  ["2a00:1450::1", "public"],
])("%s is %s", (address, reach) => {
  expect(reachOf(address)).toBe(reach);
});

describe("a guarded lookup", () => {
  const resolve = (reach: BusUrl["reach"], addresses: string[], all: boolean) =>
    new Promise((done) => {
      const url: BusUrl = { origin: "https://bus.example", host: "bus.example", reach };
      const found: LookupAddress[] = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
      const lookup = guardedLookup(url, (_host, _options, callback) => callback(null, found));
      lookup("bus.example", { all }, (error, address) => done(error ? error.code : address));
    });

  it.each([
    { reach: "public", addresses: ["8.8.8.8"], one: "8.8.8.8", why: "as it should be" },
    { reach: "public", addresses: ["127.0.0.1"], one: FORBIDDEN_ADDRESS, why: "a name that leads to this machine" },
    { reach: "public", addresses: ["169.254.169.254"], one: FORBIDDEN_ADDRESS, why: "or to metadata" },
    { reach: "public", addresses: ["10.0.0.1", "8.8.8.8"], one: "8.8.8.8", why: "the private one is left away" },
    { reach: "loopback", addresses: ["8.8.8.8"], one: FORBIDDEN_ADDRESS, why: "a localhost that is none" },
    { reach: "loopback", addresses: ["::1", "127.0.0.1"], one: "::1", why: "as it should be" },
    { reach: "any", addresses: ["10.0.0.1"], one: "10.0.0.1", why: "meant" },
    { reach: "public", addresses: [], one: FORBIDDEN_ADDRESS, why: "nowhere" },
  ] as const)("with $reach of $addresses: $one, $why", async ({ reach, addresses, one }) => {
    expect(await resolve(reach, [...addresses], false)).toBe(one);
  });

  it("gives all that are allowed, where all are asked for", async () => {
    expect(await resolve("public", ["10.0.0.1", "8.8.8.8", "2a00::1"], true)).toMatchObject([
      { address: "8.8.8.8", family: 4 },
      { address: "2a00::1", family: 6 },
    ]);
  });
});
