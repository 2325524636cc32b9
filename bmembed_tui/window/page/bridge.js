"use strict";
(() => {
  const minFontSize = 8, maxFontSize = 40, usualFontSize = 15;  // pixels
  let api = null;
  window.open = () => null;  // no link may open another window
  const ready = new Promise((resolve) => {
    const takeApi = () => { api = window.pywebview.api; resolve(); };
    if (window.pywebview && window.pywebview.api && window.pywebview.api.read) takeApi();
    else window.addEventListener("pywebviewready", takeApi);
  });
  const call = (name, ...values) => ready.then(() => api[name](...values));

  // Replaces the WebSocket of the terminal's code: input and output go through the bridge instead.
  window.BridgeSocket = class {
    constructor() { this.listeners = {}; ready.then(() => { this.post("open", {}); this.listen(); }); }
    addEventListener(name, listener) { (this.listeners[name] ||= []).push(listener); }
    post(name, event) { for (const listener of this.listeners[name] || []) listener(event); }
    send(text) {
      const [kind, value] = JSON.parse(text);
      if (kind === "stdin") call("type", value);
      else if (kind === "resize") call("resize", value.width, value.height);
      else if (kind === "focus" || kind === "blur") call("focus", kind === "focus");
    }
    async listen() {
      const encoder = new TextEncoder();
      for (;;) {
        const news = await api.read();
        if (news.output) this.post("message", { data: encoder.encode(news.output).buffer });
        for (const message of news.messages) if (handleMessage(message)) { this.post("close", {}); return; }
      }
    }
  };

  // Does what a message of the app says, and returns whether it is the last one.
  const handleMessage = (message) => {
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
    terminal.options.fontSize = Math.max(minFontSize, Math.min(maxFontSize, size));
    window.bmembed.fit();
  };

  window.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const key = event.key.toLowerCase();
    const terminal = window.bmembed.terminal;
    const size = Number(terminal.options.fontSize);
    if (key === "v") { event.stopImmediatePropagation(); return; }  // let the web view paste: see the event below
    if (event.shiftKey && key === "c") call("copy", terminal.getSelection());
    else if (key === "+" || key === "=") zoom(size + 1);
    else if (key === "-") zoom(size - 1);
    else if (key === "0") zoom(usualFontSize);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  // Control characters are removed from pasted text: one could end the paste, and the rest would act as keys.
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
  // Load the font before the terminal starts, since the terminal measures its letters then.
  window.beginTerminal = (font) => {
    const begin = window.onload;  // the terminal's code waits for this event, which is over by now
    window.onload = null;
    const fontFace = new FontFace("Roboto Mono", Uint8Array.from(atob(font), (char) => char.charCodeAt(0)), { weight: "100 700" });
    fontFace.load().then(() => document.fonts.add(fontFace)).finally(() => {
      begin();
      window.bmembed.terminal.focus();
    });
  };
})();
