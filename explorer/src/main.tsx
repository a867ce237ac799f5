/** The page, and the same as a notebook's widget. */
import { render as draw } from "preact";
import { App } from "./app";
import { HttpTransport, WidgetTransport, type WidgetModel } from "./transport";
import "./style.css";

const root = typeof document === "undefined" ? null : document.getElementById("sgfi-explorer");
if (root) {
  const token = new URLSearchParams(location.search).get("token") ?? "";
  draw(<App transport={new HttpTransport(token)} start={location.hash} />, root);
}

/** anywidget's entry. */
function render({ model, el }: { model: WidgetModel & { get(name: string): string }; el: HTMLElement }) {
  const transport = new WidgetTransport(model);
  el.classList.add("sgfi-widget");
  draw(<App transport={transport} start={model.get("start")} />, el);
  return () => {
    draw(null, el);
    transport.close();
  };
}

export default { render };
