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

const NONE: Stages = {};

/** Follow a question; asked again whenever it changes, and cancelled when it is no longer shown. Never what an earlier question got. */
export function useLive(ask: Ask | null): Stages {
  const { transport } = useSession();
  const [state, setState] = useState<{ key: string; stages: Stages }>({ key: "", stages: NONE });
  const key = ask ? JSON.stringify(ask) : "";
  useEffect(() => {
    if (!ask) return undefined;
    return transport.live(ask, (event) => {
      const names = event.stage ? [event.stage] : ask.stages;
      setState((now) => {
        const stages = now.key === key ? { ...now.stages } : {};
        for (const name of names) {
          stages[name] = { state: event.state, steps: event.steps ?? stages[name]?.steps ?? 0, facts: event.facts, error: event.error };
        }
        return { key, stages };
      });
    });
  }, [key, transport]);
  return state.key === key ? state.stages : NONE;
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

/** The picture at a path as an address for `img`; neither address nor problem while it is on its way. */
export function usePicture(path: string | null): { url?: string; problem?: Problem } {
  const { transport } = useSession();
  const [result, setResult] = useState<{ path: string | null; url?: string; problem?: Problem }>({ path: null });
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    blobUrl(transport, path, stop.signal).then(
      (url) => !stop.signal.aborted && setResult({ path, url }),
      (error: unknown) => !stop.signal.aborted && setResult({ path, problem: problemOf(error) }),
    );
    return () => stop.abort();
  }, [path, transport]);
  if (!path) return {};
  return result.path === path ? result : { url: blobs.get(path) };
}

export interface Arrived<T> {
  path: string;
  url: string;
  about: T;
}

/** The last picture that arrived, with what was said about it when it was asked for: it stays until the next one is here. */
export function useArrived<T>(path: string | null, about: T): { shown: Arrived<T> | null; problem?: Problem } {
  const last = useRef<Arrived<T> | null>(null);
  const { url, problem } = usePicture(path);
  if (path && url) last.current = { path, url, about };
  return { shown: last.current, problem };
}

/** The picture at a path, and no other: blank while it is on its way. */
export function Picture({ path, alt, className = "" }: { path: string | null; alt: string; className?: string }) {
  const { url, problem } = usePicture(path);
  if (url) return <img class={className} src={url} alt={alt} data-path={path} draggable={false} />;
  const state = problem ? `could not be drawn: ${problem.got}` : "on its way";
  return <div class={`blank ${className}`} role="img" aria-label={alt ? `${alt}, ${state}` : state} title={problem && state} />;
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
