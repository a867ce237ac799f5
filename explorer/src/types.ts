/** What the server says, and what the address bar holds. */

export interface TensorNode {
  name: string;
  aliases: string[];
  channels: number;
  coords: number[];
  op: string;
}

export interface Model {
  id: string;
  title: string;
  kind: "natural" | "maps";
  input: number[];
  text: boolean;
  picture: boolean;
  target: string;
  nodes: TensorNode[];
  edges: [string, string][];
  settings: Record<string, unknown>;
  source: string;
}

export interface Entry {
  sha: string;
  name: string;
  kind: "picture" | "text" | "tensor";
  lenses: string[];
}

export interface Problem {
  expected: string;
  got: string;
  todo: string;
}

/** Numbers about one stage of an answer; which there are depends on the stage. */
export interface Facts {
  query: string;
  stage: string;
  seconds: number;
  gain?: number;
  length?: number;
  cosine?: number;
  residual?: number;
  steps?: number;
  share?: number | null;
  profile?: number[];
  random?: number | null;
  swapped?: number | null;
  neighbours?: number | null;
  zero?: number;
  numbers?: number;
  sentence?: string;
  verdict?: string;
  other?: string;
}

export interface LiveEvent {
  id: number;
  stage?: string;
  query?: string;
  state: "queued" | "working" | "done" | "failed" | "cancelled";
  steps?: number;
  ahead?: number;
  facts?: Facts;
  error?: Problem;
}

export interface Scores {
  node: string;
  channels: { activation: number[]; contribution?: number[] };
  cells: { activation: number[]; contribution?: number[]; at: number[][] };
  decision: Decision | null;
}

export interface Decision {
  top: number;
  second: number;
  margin: number;
  probability: number;
}

export interface Reads {
  places: number[];
  cells: number[];
  share: number[][];
}

export interface GroupRow {
  kind: "positive" | "negative" | "matched" | "random";
  size: number;
  query: string;
  contribution: number;
  drop: number;
  flipped: number;
  groups: number;
}

export interface TokenRow {
  node: string;
  lens: "logit lens" | "Jacobian lens";
  next: string[][];
  odds: number[][];
  length: number[];
}

/** What is known of a map folder; no nodes for a natural inverse. Shares of a node's energy that its maps miss. */
export interface Quality {
  nodes: { name: string; channels: number; unseen: number[]; seen: number | null; lost: number | null }[];
  advice: string[];
  why?: string;
}
