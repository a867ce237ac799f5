/** What every part of the page shares: the transport, what is open, the view, and how answers are followed. */
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import type { Ask, Transport } from "./transport";
import { json, Refused } from "./transport";
import type { View } from "./state";
import type { Entry, Facts, Model, Problem } from "./types";

export interface Session {
  transport: Transport;
  models: Model[];
  inputs: Entry[];
  view: View;
  model: Model | undefined;
  set(change: Partial<View>, replace?: boolean): void;
  refresh(): Promise<Entry[]>;
  say(text: string): void;
}

export const SessionContext = createContext<Session>(null as unknown as Session);
export const useSession = () => useContext(SessionContext);

export interface Stage {
  state: "queued" | "working" | "done" | "failed" | "cancelled";
  steps: number;
  facts?: Facts;
  error?: Problem;
}

export type Stages = Record<string, Stage>;

/** Follow a question; asked again whenever it changes, and cancelled when it is no longer shown. */
export function useLive(ask: Ask | null): Stages {
  const { transport } = useSession();
  const [stages, setStages] = useState<Stages>({});
  const key = ask ? JSON.stringify(ask) : "";
  useEffect(() => {
    setStages({});
    if (!ask) return undefined;
    return transport.live(ask, (event) => {
      const names = event.stage ? [event.stage] : ask.stages;
      setStages((now) => {
        const next = { ...now };
        for (const name of names) {
          next[name] = { state: event.state, steps: event.steps ?? now[name]?.steps ?? 0, facts: event.facts, error: event.error };
        }
        return next;
      });
    });
  }, [key, transport]);
  return stages;
}

/** JSON at a path, or the problem; nothing while it is on its way. */
export function useJson<T>(path: string | null): { data?: T; problem?: Problem } {
  const { transport } = useSession();
  const [result, setResult] = useState<{ path: string | null; data?: T; problem?: Problem }>({ path: null });
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    json<T>(transport, path, stop.signal).then(
      (data) => !stop.signal.aborted && setResult({ path, data }),
      (error: unknown) => !stop.signal.aborted && setResult({ path, problem: problemOf(error) }),
    );
    return () => stop.abort();
  }, [path, transport]);
  return result.path === path ? result : {};
}

export function problemOf(error: unknown): Problem {
  if (error instanceof Refused) return error.problem;
  return { expected: "an answer", got: String(error), todo: "Reload the page." };
}

const blobs = new Map<string, string>();

async function blobUrl(transport: Transport, path: string, signal: AbortSignal): Promise<string> {
  const known = blobs.get(path);
  if (known) return known;
  const { body, type } = await transport.bytes(path, signal);
  const url = URL.createObjectURL(new Blob([body], { type }));
  blobs.set(path, url);
  if (blobs.size > 600) {
    const [oldest, gone] = blobs.entries().next().value as [string, string];
    blobs.delete(oldest);
    URL.revokeObjectURL(gone);
  }
  return url;
}

/** A picture by its path. While another one is on its way the last stays, unless `fresh`. */
export function Picture({ path, alt, className = "", fresh = false }: { path: string | null; alt: string; className?: string; fresh?: boolean }) {
  const { transport } = useSession();
  const [shown, setShown] = useState<{ path: string; url: string } | null>(null);
  const latest = useRef(path);
  latest.current = path;
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    blobUrl(transport, path, stop.signal).then(
      (url) => latest.current === path && setShown({ path, url }),
      () => undefined,
    );
    return () => stop.abort();
  }, [path, transport]);
  const ready = shown && path && (!fresh || shown.path === path);
  if (!ready) return <div class={`blank ${className}`} role="img" aria-label={`${alt}, on its way`} />;
  return <img class={className} src={shown.url} alt={alt} data-path={shown.path} draggable={false} />;
}

export function Trouble({ problem }: { problem: Problem }) {
  return (
    <div class="trouble" role="alert">
      <p><b>Expected</b> {problem.expected}</p>
      <p><b>Got</b> {problem.got}</p>
      <p>{problem.todo}</p>
    </div>
  );
}
