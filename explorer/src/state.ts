/** Everything on the screen is in the address: `#m=...&x=...&q=...`. */
import type { Model, TensorNode } from "./types";

export interface View {
  /** Lens, input, query. */
  m: string;
  x: string;
  q: string;
  /** Which tab is open below the pictures; nothing: the first. */
  v: "" | "grid" | "compare" | "decide" | "tokens";
  /** Grid: units, order, how many. */
  by: "channels" | "cells";
  sort: "index" | "activation" | "contribution" | "selectivity";
  n: number;
  /** Whether what is not determined fades; how values are coloured. */
  s: boolean;
  w: "natural" | "signed";
  /** Compare: the other side. */
  bm: string;
  bx: string;
  bq: string;
  bs: string;
  /** Pinned queries. */
  p: string[];
}

export const START: View = {
  m: "", x: "", q: "", v: "", by: "channels", sort: "activation", n: 24, s: false, w: "natural",
  bm: "", bx: "", bq: "", bs: "raw", p: [],
};

const CHOICES: Partial<Record<keyof View, readonly string[]>> = {
  v: ["grid", "compare", "decide", "tokens"],
  by: ["channels", "cells"],
  sort: ["index", "activation", "contribution", "selectivity"],
  w: ["natural", "signed"],
  bs: ["raw", "first", "final"],
};

export function format(view: View): string {
  const parts: string[] = [];
  for (const key of Object.keys(START) as (keyof View)[]) {
    const value = view[key];
    if (JSON.stringify(value) === JSON.stringify(START[key])) continue;
    const text = Array.isArray(value) ? value.join("|") : value === true ? "1" : String(value);
    parts.push(`${key}=${encodeURIComponent(text).replace(/%3A/g, ":").replace(/%40/g, "@").replace(/%2C/g, ",")}`);
  }
  return parts.join("&");
}

/** What an address says; anything it does not say, or says wrongly, is as at the start. */
export function parse(hash: string): View {
  const view: View = { ...START, p: [] };
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at < 0) continue;
    const key = part.slice(0, at) as keyof View;
    let text = "";
    try {
      text = decodeURIComponent(part.slice(at + 1));
    } catch {
      continue;
    }
    const allowed = CHOICES[key];
    if (allowed && !allowed.includes(text)) continue;
    if (key === "p") view.p = text.split("|").filter(Boolean).slice(0, 24);
    else if (key === "s") view.s = text === "1";
    else if (key === "n") view.n = Math.min(2048, Math.max(1, Number.parseInt(text, 10) || START.n));
    else if (key in START) (view as unknown as Record<string, string>)[key] = text;
  }
  return view;
}

/** The parts of a simple query `<node>[:<channels>][@<coords>]`; the server knows the whole syntax. */
export interface Parts {
  node: string;
  units: string;
  coords: string;
}

export function split(query: string): Parts {
  const [rest, coords = ""] = query.split("@", 2);
  const at = rest.search(/[:%]/);
  return at < 0 ? { node: rest, units: "", coords } : { node: rest.slice(0, at), units: rest.slice(at), coords };
}

export function join(parts: Parts): string {
  return parts.node + parts.units + (parts.coords ? `@${parts.coords}` : "");
}

export function nodeOf(model: Model | undefined, query: string): TensorNode | undefined {
  const { node } = split(query);
  if (!model) return undefined;
  const name = node || model.target;
  return model.nodes.find((known) => known.name === name || known.aliases.includes(name));
}

/** The same question at another tensor: its channel and cell are kept where the tensor has them. */
export function moved(query: string, from: TensorNode | undefined, to: TensorNode): string {
  const parts = split(query);
  const channel = /^:(\d+)$/.exec(parts.units);
  const units = channel && Number(channel[1]) < to.channels ? parts.units : "";
  let coords = "";
  if (/^\d+(,\d+)*$/.test(parts.coords) && from && from.coords.length === to.coords.length) {
    const scaled = parts.coords.split(",").map((at, axis) => {
      const place = Math.floor(((Number(at) + 0.5) * to.coords[axis]) / from.coords[axis]);
      return Math.min(place, to.coords[axis] - 1);
    });
    coords = scaled.join(",");
  }
  return join({ node: to.name, units, coords });
}

/** The next channel, or where only a cell is asked for the next cell. */
export function stepped(query: string, node: TensorNode, by: number): string {
  const parts = split(query);
  const channel = /^:(\d+)$/.exec(parts.units);
  if (!channel && /^\d+(,\d+)*$/.test(parts.coords)) {
    const at = parts.coords.split(",").map(Number);
    let flat = at.reduce((sum, place, axis) => sum * node.coords[axis] + place, 0);
    const count = node.coords.reduce((a, b) => a * b, 1);
    flat = (flat + by + count) % count;
    const next: number[] = [];
    for (let axis = node.coords.length - 1; axis >= 0; axis--) {
      next.unshift(flat % node.coords[axis]);
      flat = Math.floor(flat / node.coords[axis]);
    }
    return join({ ...parts, node: node.name, coords: next.join(",") });
  }
  const now = channel ? Number(channel[1]) : by > 0 ? -1 : 0;
  return join({ ...parts, node: node.name, units: `:${(now + by + node.channels) % node.channels}` });
}

export function shape(node: TensorNode): string {
  return [node.channels, ...node.coords].join(" × ");
}

export function address(what: string, view: { m: string; x: string; q: string }, suffix: string, params: Record<string, string> = {}): string {
  const query = new URLSearchParams(params).toString();
  return `/${what}/${view.m}/${view.x}/${encodeURIComponent(view.q)}.${suffix}${query ? `?${query}` : ""}`;
}
