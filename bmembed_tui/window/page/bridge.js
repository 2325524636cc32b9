"use strict";
(() => {
  const smallest = 8, largest = 40, usual = 15;
  let api = null;
  window.open = () => null;  // nothing here leads out
  const ready = new Promise((resolve) => {
    const found = () => { api = window.pywebview.api; resolve(); };
    if (window.pywebview && window.pywebview.api && window.pywebview.api.read) found();
    else window.addEventListener("pywebviewready", found);
  });
  const call = (name, ...values) => ready.then(() => api[name](...values));

  // Stands in for the connection that the terminal's code wants: it goes nowhere but to the bridge.
  window.BridgeSocket = class {
    constructor() { this.heard = {}; ready.then(() => { this.post("open", {}); this.listen(); }); }
    addEventListener(name, take) { (this.heard[name] ||= []).push(take); }
    post(name, event) { for (const take of this.heard[name] || []) take(event); }
    send(text) {
      const [kind, value] = JSON.parse(text);
      if (kind === "stdin") call("type", value);
      else if (kind === "resize") call("resize", value.width, value.height);
      else if (kind === "focus" || kind === "blur") call("focus", kind === "focus");
    }
    async listen() {
      const encoder = new TextEncoder();
      for (;;) {
        const found = await api.read();
        if (found.output) this.post("message", { data: encoder.encode(found.output).buffer });
        for (const message of found.messages) if (act(message)) { this.post("close", {}); return; }
      }
    }
  };

  const act = (message) => {
    if (message.type === "pick_folder") call("pick_folder");
    else if (message.type === "background") document.documentElement.style.setProperty("--background", message.color);
    else if (message.type === "ended") {
      document.getElementById("ended").textContent = message.text || "The app has ended.";
      return true;
    }
    return false;
  };

  const zoom = (size) => {
    const terminal = window.bmembed.terminal;
    terminal.options.fontSize = Math.max(smallest, Math.min(largest, size));
    window.bmembed.fit();
  };

  window.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const key = event.key.toLowerCase();
    const terminal = window.bmembed.terminal;
    const size = Number(terminal.options.fontSize);
    if (key === "v") { event.stopImmediatePropagation(); return; }  // the system's own paste reaches the terminal
    if (event.shiftKey && key === "c") call("copy", terminal.getSelection());
    else if (key === "+" || key === "=") zoom(size + 1);
    else if (key === "-") zoom(size - 1);
    else if (key === "0") zoom(usual);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  // What is pasted is text: a sign in it that steers a terminal would end the paste, and the rest would be keys.
  window.addEventListener("paste", (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    const text = event.clipboardData.getData("text/plain");
    window.bmembed.terminal.paste(text.replace(/[^\P{Cc}\t\r\n]/gu, ""));
  }, true);
  window.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    zoom(Number(window.bmembed.terminal.options.fontSize) + (event.deltaY < 0 ? 1 : -1));
  }, { capture: true, passive: false });
  window.addEventListener("focus", () => { call("focus", true); window.bmembed && window.bmembed.terminal.focus(); });
  window.addEventListener("blur", () => call("focus", false));
  for (const name of ["dragenter", "dragover", "drop"]) {
    window.addEventListener(name, (event) => { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; }, true);
  }
  // The terminal measures its letters when it begins: their font comes first.
  window.beginTerminal = (font) => {
    const begin = window.onload;  // the terminal's code wants to wait for a page that has been here for long
    window.onload = null;
    const letters = new FontFace("Roboto Mono", Uint8Array.from(atob(font), (sign) => sign.charCodeAt(0)), { weight: "100 700" });
    letters.load().then(() => document.fonts.add(letters)).finally(() => {
      begin();
      window.bmembed.terminal.focus();
    });
  };
})();
