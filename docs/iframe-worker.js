// Search in a folder: a page of file:// may not start the worker of Material's search, so its script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((done, failed) => {
        const script = inner.document.createElement("script");
        script.onload = () => done(inner);
        script.onerror = () => failed(new Error(`${url} cannot be loaded`));
        script.src = url;
        inner.document.head.append(script);
      });
      this.terminate = () => frame.remove();
    }
    postMessage(data) {
      this.ready.then((inner) => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
