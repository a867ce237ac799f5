/** How questions travel: over HTTP and a WebSocket, or through a notebook's widget. */
import type { LiveEvent, Problem } from "./types";

export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(`expected ${problem.expected}; got ${problem.got}. ${problem.todo}`);
  }
}

export interface Ask {
  lens: string;
  input: string;
  query: string;
  stages: string[];
  background?: boolean;
}

export interface Transport {
  bytes(path: string, signal?: AbortSignal): Promise<{ body: ArrayBuffer; type: string }>;
  upload(file: Blob, name: string): Promise<{ sha: string }>;
  /** Follow a question; the returned function cancels it. */
  live(ask: Ask, heard: (event: LiveEvent) => void): () => void;
  /** Whether the address bar is ours. */
  readonly page: boolean;
}

const LOST: Problem = { expected: "the server to answer", got: "no connection", todo: "Is sgfi explore still running? Reload when it is." };

export class HttpTransport implements Transport {
  readonly page = true;
  private socket: WebSocket | null = null;
  private waiting = new Map<number, { text: string; heard: (event: LiveEvent) => void }>();
  private next = 1;
  private tries = 0;

  constructor(private readonly token: string) {}

  async bytes(path: string, signal?: AbortSignal) {
    let reply: Response;
    try {
      reply = await fetch(path, { headers: { authorization: `Bearer ${this.token}` }, signal });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Refused(LOST);
    }
    if (!reply.ok) throw new Refused(await problemOf(reply));
    return { body: await reply.arrayBuffer(), type: reply.headers.get("content-type") ?? "" };
  }

  async upload(file: Blob, name: string) {
    const reply = await fetch(`/api/inputs?name=${encodeURIComponent(name)}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": file.type || "application/octet-stream" },
      body: file,
    });
    if (!reply.ok) throw new Refused(await problemOf(reply));
    return (await reply.json()) as { sha: string };
  }

  live(ask: Ask, heard: (event: LiveEvent) => void) {
    const id = this.next++;
    const text = JSON.stringify({ id, ask });
    this.waiting.set(id, { text, heard });
    const socket = this.connected();
    if (socket.readyState === WebSocket.OPEN) socket.send(text);
    return () => {
      if (!this.waiting.delete(id)) return;
      if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ id, cancel: true }));
    };
  }

  private connected(): WebSocket {
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return this.socket;
    const socket = new WebSocket(`ws://${location.host}/live?token=${encodeURIComponent(this.token)}`);
    this.socket = socket;
    socket.onopen = () => {
      this.tries = 0;
      for (const { text } of this.waiting.values()) socket.send(text);
    };
    socket.onmessage = (message) => {
      const event = JSON.parse(message.data as string) as LiveEvent;
      this.waiting.get(event.id)?.heard(event);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      if (!this.waiting.size) return;
      if (this.tries++ < 5) setTimeout(() => this.waiting.size && this.connected(), 400 * this.tries);
      else for (const [id, { heard }] of this.waiting) heard({ id, state: "failed", error: LOST });
    };
    return socket;
  }
}

async function problemOf(reply: Response): Promise<Problem> {
  try {
    return ((await reply.json()) as { error: Problem }).error;
  } catch {
    return { expected: "an answer", got: `status ${reply.status}`, todo: "Reload the page." };
  }
}

/** The part of an anywidget model that is used here. */
export interface WidgetModel {
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(name: "msg:custom", heard: (message: any, buffers: DataView[]) => void): void;
  off(name: "msg:custom", heard: (message: any, buffers: DataView[]) => void): void;
}

export class WidgetTransport implements Transport {
  readonly page = false;
  private next = 1;
  private replies = new Map<number, (message: any, buffers: DataView[]) => void>();
  private events = new Map<number, (event: LiveEvent) => void>();
  private heard = (message: any, buffers: DataView[]) => {
    if (message.reply !== undefined) {
      this.replies.get(message.reply)?.(message, buffers);
      this.replies.delete(message.reply);
    } else if (message.live) this.events.get(message.live.id)?.(message.live as LiveEvent);
  };

  constructor(private readonly model: WidgetModel) {
    model.on("msg:custom", this.heard);
  }

  close() {
    this.model.off("msg:custom", this.heard);
  }

  private request(content: Record<string, unknown>, buffers: ArrayBuffer[] = []): Promise<{ body: ArrayBuffer; type: string }> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.replies.set(id, (message, data) => {
        const view = data[0];
        const body = view ? (view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) as ArrayBuffer) : new ArrayBuffer(0);
        if (message.status < 400) resolve({ body, type: message.type });
        else reject(new Refused((JSON.parse(new TextDecoder().decode(body)) as { error: Problem }).error));
      });
      this.model.send({ request: id, ...content }, undefined, buffers);
    });
  }

  bytes(path: string) {
    return this.request({ path });
  }

  async upload(file: Blob, name: string) {
    const { body } = await this.request({ upload: name, kind: file.type.startsWith("text/plain") ? "text" : "picture" }, [await file.arrayBuffer()]);
    return JSON.parse(new TextDecoder().decode(body)) as { sha: string };
  }

  live(ask: Ask, heard: (event: LiveEvent) => void) {
    const id = this.next++;
    this.events.set(id, heard);
    this.model.send({ live: { id, ask } });
    return () => {
      if (this.events.delete(id)) this.model.send({ live: { id, cancel: true } });
    };
  }
}

export async function json<T>(transport: Transport, path: string, signal?: AbortSignal): Promise<T> {
  const { body } = await transport.bytes(path, signal);
  return JSON.parse(new TextDecoder().decode(body)) as T;
}
