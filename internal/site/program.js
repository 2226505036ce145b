// A program of Go, compiled to WebAssembly, in a worker of its own.
export class Program {
	#asked = new Map();
	#last = 0;
	#worker;
	#ready;

	// The worker comes from a blob: URL, so the page's policy holds in it too.
	constructor(wasm) {
		const runtime = new URL("wasm_exec.js", import.meta.url).href;
		const source = `importScripts(${JSON.stringify(runtime)});
const go = new Go(), url = ${JSON.stringify(new URL(wasm, import.meta.url).href)};
const load = async () => { const r = await fetch(url); if (!r.ok) throw new Error("it can't be loaded: HTTP status " + r.status); return r; };
(async () => {
	const response = await load();
	const module = response.headers.get("content-type") === "application/wasm" ? await WebAssembly.compileStreaming(response) : await WebAssembly.compile(await response.arrayBuffer());
	await go.run(await WebAssembly.instantiate(module, go.importObject));
	throw new Error("it has stopped, perhaps because there was too little memory");
})().catch(e => postMessage({ended: e.message}));`;
		const url = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
		this.#worker = new Worker(url);
		this.#ready = new Promise((resolve, reject) => {
			const end = why => {
				const error = new Error(`The program of this page does not run: ${why}. Reload the page.`);
				reject(error);
				for (const {reject} of this.#asked.values()) reject(error);
				this.#asked.clear();
			};
			this.#worker.addEventListener("error", e => { e.preventDefault(); end(e.message || "the browser refuses it"); });
			this.#worker.addEventListener("message", ({data}) => {
				if (data.ready) { URL.revokeObjectURL(url); resolve(); }
				else if (data.ended) end(data.ended);
				else this.#hear(data);
			});
		});
		this.#ready.catch(() => {}); // who asks hears it
	}

	#hear(reply) {
		const asked = this.#asked.get(reply.id);
		if (!asked) return;
		if ("told" in reply) return asked.told?.(reply.told);
		this.#asked.delete(reply.id);
		if ("failed" in reply) asked.reject(Object.assign(new Error(reply.failed), {said: true}));
		else asked.resolve(reply.answer);
	}

	// ask resolves with the program's answer; an error that the program says has said. A signal cancels the question: then ask rejects at once, and the program ends its work soon.
	async ask(what, data, {file, told, signal} = {}) {
		await this.#ready;
		signal?.throwIfAborted();
		const id = ++this.#last;
		return new Promise((resolve, reject) => {
			this.#asked.set(id, {resolve, reject, told});
			this.#worker.postMessage({id, ask: what, text: JSON.stringify(data ?? null), file, name: file?.name});
			signal?.addEventListener("abort", () => {
				if (this.#asked.delete(id)) this.#worker.postMessage({cancel: id});
				reject(signal.reason);
			}, {once: true});
		});
	}
}

// copies makes a button copy what a function returns.
export function copies(button, text) {
	const label = button.textContent;
	let timer;
	button.addEventListener("click", async () => {
		clearTimeout(timer);
		try {
			await navigator.clipboard.writeText(text());
			button.textContent = "Copied";
		} catch {
			button.textContent = "Not allowed";
		}
		timer = setTimeout(() => { button.textContent = label; }, 2000);
	});
}
