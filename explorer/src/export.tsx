/** Exactly what is shown, to take away. */
import { useState } from "preact/hooks";
import { problemOf, Trouble, useSession } from "./session";
import { address, format, START } from "./state";
import type { Problem } from "./types";

export function Export() {
  const { view, model, transport, say } = useSession();
  const [problem, setProblem] = useState<Problem | null>(null);
  const params: Record<string, string> = { stage: view.s ? "share" : "final", ...(view.w === "signed" ? { view: "signed" } : {}) };
  const path = (suffix: string) => address(suffix === "png" || suffix === "safetensors" ? "inverse" : "export", view, suffix, params);
  const name = `${view.q.replace(/[^\w.-]+/g, "_")}`;
  const save = async (suffix: string) => {
    setProblem(null);
    try {
      const { body, type } = await transport.bytes(path(suffix));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([body], { type }));
      link.download = `${name}.${suffix}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const copy = async (suffix: string) => {
    setProblem(null);
    try {
      const { body } = await transport.bytes(path(suffix));
      await navigator.clipboard.writeText(new TextDecoder().decode(body));
      say(suffix === "py" ? "Python lines copied" : "Command copied");
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const files = model?.picture ? ["png", "svg", "html", "safetensors"] : ["html", "safetensors"];
  return (
    <section class="export" aria-label="Export">
      <span>Save</span>
      {files.map((suffix) => <button key={suffix} type="button" onClick={() => void save(suffix)}>{suffix === "html" ? "single HTML file" : suffix.toUpperCase()}</button>)}
      <span>Copy</span>
      <button type="button" onClick={() => void copy("py")}>Python lines</button>
      <button type="button" onClick={() => void copy("sh")}>command line</button>
      <code class="again">sgfi export "#{format({ ...START, m: view.m, x: view.x, q: view.q, s: view.s, w: view.w })}"</code>
      {problem && <Trouble problem={problem} />}
    </section>
  );
}
