// The calculator. What is allowed, and all numbers and texts, come from the library: calculator.wasm.
import {Program, copies} from "../program.js";

const program = new Program("calculator/calculator.wasm");
const $ = id => document.getElementById(id);
const fields = {limits: $("limits"), traffic: $("text"), step: $("step"), cost: $("cost"), window: $("window")};
const svg = (name, attributes, ...children) => {
	const e = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
	e.append(...children);
	return e;
};

// Traffics to begin with: counts of 60 steps.
const steps = 60;
const shapes = {
	burst: i => i === 5 ? 40 : i === 35 ? 40 : 0,
	steady: () => 2,
	waves: i => Math.round(2 + 2 * Math.sin((i - 7) / 30 * 2 * Math.PI)),
	loop: i => i < 8 ? 1 : i < 40 ? 5 : 1,
	none: () => 0,
};
const shape = of => Array.from({length: steps}, (_, i) => of(i)).join(" ");
const examples = {
	client: {limits: "60/min burst 20", step: "1s", window: "1 min", traffic: shape(i => i === 5 ? 30 : i >= 25 && i < 45 ? 6 : i % 4 === 0 ? 1 : 0)},
	two: {limits: "10/s burst 20\n300/min burst 100", step: "1s", window: "1 min", traffic: shape(i => i < 5 ? 4 : i < 25 ? 14 : i === 45 ? 60 : 3)},
	stepped: {limits: "5/15min stepped", step: "1 min", window: "15 min", traffic: shape(i => i >= 3 && i < 12 || i === 30 ? 1 : i === 45 ? 4 : 0)},
	aligned: {limits: "1000/day aligned\n100/h burst 200", step: "1h", window: "1 day", traffic: shape(i => { const h = i % 24; return h > 7 && h < 19 ? 110 : 10; })},
	slots: {limits: "5 at once hold 10s", step: "1s", window: "1 min", traffic: shape(i => i === 4 ? 8 : i > 20 && i < 50 && i % 2 ? 1 : 0)},
};

let answer = null; // the last one without mistakes
let shown = 0;     // the column that the readout tells of
let hold = 0;      // the top of the scale while somebody draws

// The state, in the fields and in the link.
const counts = () => { // null if they are times, which the library tells from counts by their size
	const list = /^[\d\s,;[\]]*$/.test(fields.traffic.value) ? (fields.traffic.value.match(/\d+/g) ?? []).map(Number) : null;
	return list?.every(n => n < 1_000_000) ? list : null;
};
const pack = list => list.reduce((runs, n) => {
	if (runs.length && runs.at(-1)[0] === n) runs.at(-1)[1]++;
	else runs.push([n, 1]);
	return runs;
}, []).map(([n, times]) => times > 1 ? `${n}x${times}` : n).join(".");
const unpack = text => {
	const list = [];
	for (const run of text.split(".")) {
		const [n, times = "1"] = run.split("x");
		for (let i = 0; i < (Number(times) || 1); i++) {
			if (list.push(n) > 1000) return list.join(" "); // the library says that it is too much
		}
	}
	return list.join(" ");
};
const longest = 8000;

function link() {
	const drawn = counts();
	const state = new URLSearchParams({limits: fields.limits.value, step: fields.step.value, cost: fields.cost.value, window: fields.window.value});
	state.set(drawn ? "counts" : "times", drawn ? pack(drawn) : fields.traffic.value);
	return "#" + state;
}

let saving;
function save() {
	clearTimeout(saving);
	saving = setTimeout(() => {
		const to = link();
		$("link").disabled = to.length > longest;
		$("link").title = to.length > longest ? "The traffic is too long for a link." : "";
		if (to.length <= longest) history.replaceState(null, "", to);
	}, 250);
}

function load() {
	const state = new URLSearchParams(location.hash.slice(1));
	if (!state.has("limits")) return false;
	for (const name of ["limits", "step", "cost", "window"]) {
		if (state.has(name)) fields[name].value = state.get(name);
	}
	if (state.has("times")) fields.traffic.value = state.get("times");
	else if (state.has("counts")) fields.traffic.value = unpack(state.get("counts"));
	return true;
}

// Questions: one at a time, and the newest last.
let asking = false, again = false;
async function compute() {
	grow();
	save();
	if (asking) { again = true; return; }
	asking = true;
	do {
		again = false;
		try {
			show(await program.ask("compute", Object.fromEntries(Object.entries(fields).map(([k, f]) => [k, f.value]))));
		} catch (e) {
			$("wrong-all").hidden = false;
			$("wrong-all").textContent = e.message;
			$("says").textContent = "No picture";
		}
	} while (again);
	asking = false;
}

function grow() {
	fields.limits.rows = Math.min(8, Math.max(1, fields.limits.value.split("\n").length));
}

// What the library said.
const places = {limits: "limits-wrong", traffic: "text-wrong", step: "step-wrong", cost: "cost-wrong", window: "window-wrong"};
function show(a) {
	for (const [field, id] of Object.entries(places)) {
		const list = a.mistakes.filter(m => m.field === field);
		fields[field].setAttribute("aria-invalid", list.length > 0);
		const items = list.slice(0, 8).map(m => {
			const li = document.createElement("li");
			li.append((m.line && fields[field].value.trim().includes("\n") ? `Line ${m.line}: ` : "") + m.text);
			if (m.code) {
				const about = document.createElement("a");
				about.href = `../docs/errors.html#${m.code.toLowerCase()}`;
				about.textContent = m.code;
				li.append(" ", about);
				li.firstChild.data = li.firstChild.data.replace(` (${m.code})`, "");
			}
			return li;
		});
		if ($(id).textContent !== items.map(i => i.textContent).join("")) $(id).replaceChildren(...items);
	}
	document.body.classList.toggle("stale", a.mistakes.length > 0);
	if (a.go) {
		$("go").textContent = a.go;
		$("yaml").textContent = a.yaml;
	}
	if (!a.picture) {
		$("says").textContent = "There is a mistake. The picture is from before it.";
		return;
	}
	answer = a;
	$("says").textContent = a.picture.says;
	const remark = text => { const li = document.createElement("li"); li.textContent = text; return li; };
	$("remarks").replaceChildren(...a.picture.remarks.map(remark));
	$("most").textContent = a.window.says;
	$("seen").textContent = a.window.seen ? `This traffic: ${number(a.window.seen)} allowed in the busiest ${a.window.length}, from ${a.window.at} on.` : "";
	$("bounds").hidden = a.limits.length < 2;
	$("bounds").tBodies[0].replaceChildren(...a.window.limits.map(({limit, most}) => {
		const tr = document.createElement("tr");
		for (const text of [limit, most]) tr.insertCell().textContent = text;
		return tr;
	}));
	$("fields").replaceChildren(...a.picture.fields.map((f, i) => {
		const box = document.createElement("div"), title = document.createElement("h3"), pre = document.createElement("pre"), button = document.createElement("button");
		box.className = "code";
		title.textContent = f.what;
		title.id = `h-field-${i}`;
		pre.textContent = f.text;
		pre.tabIndex = 0;
		pre.setAttribute("aria-labelledby", title.id);
		button.type = "button";
		button.className = "copies";
		button.textContent = "Copy";
		button.setAttribute("aria-label", `Copy: ${f.what}`);
		copies(button, () => f.text);
		box.append(title, pre, button);
		return box;
	}));
	draw();
}

// The picture.
const number = n => n.toLocaleString("en");
const nice = n => { // at least n, and a round number
	for (let base = 1; ; base *= 10) {
		for (const digit of [1, 2, 4, 5, 6, 8]) if (digit * base >= n) return digit * base;
	}
};
const edge = {left: 44, right: 10, top: 28};
const heights = {traffic: 256, left: 122};
const ticks = count => {
	const step = [1, 2, 5, 10, 15, 20, 30, 60, 120, 240, 480].find(s => count / s <= 6.5) ?? 480;
	return Array.from({length: Math.ceil(count / step)}, (_, i) => i * step);
};

function draw() {
	const {picture: p, limits} = answer;
	const width = Math.max(240, $("picture").clientWidth), inner = width - edge.left - edge.right;
	const n = p.counts.length, column = inner / n, x = i => edge.left + i * column;
	const top = hold || nice(Math.max(8, ...p.counts) * 1.1);
	const height = heights.traffic, bottom = height - 4, y = c => edge.top + (bottom - edge.top) * (1 - Math.min(1, c / top));
	const gap = column > 5 ? Math.min(3, column * .2) : 0;

	const parts = [hatch()];
	const w = answer.window, span = n * p.step, within = w.seen > 0 && w.begin + w.seconds <= span;
	if (within) parts.push(svg("rect", {class: "window", x: edge.left + w.begin / span * inner, y: edge.top, width: Math.max(2, w.seconds / span * inner), height: bottom - edge.top}));
	$("busiest").hidden = !within;
	$("busiest").textContent = `the busiest ${w.length}`;
	for (const at of [0, top / 2, top]) {
		parts.push(svg("line", {class: "grid", x1: edge.left, x2: width - edge.right, y1: y(at), y2: y(at)}), svg("text", {x: edge.left - 8, y: y(at) + 4, class: "end"}, number(at)));
	}
	p.counts.forEach((count, i) => {
		const allowed = count - p.denied[i], at = {x: x(i) + gap / 2, width: Math.max(.5, column - gap)};
		if (allowed) parts.push(svg("rect", {class: "allowed", ...at, y: y(allowed), height: bottom - y(allowed)}));
		if (p.denied[i]) parts.push(svg("rect", {class: "denied", ...at, y: y(count), height: y(allowed) - y(count)}));
	});
	parts.push(svg("rect", {class: "here", x: x(Math.min(shown, n - 1)), y: edge.top, width: column, height: bottom - edge.top}));
	parts.push(svg("text", {x: edge.left, y: 14, class: "of"}, `requests in ${p.step_text}`));
	frame($("traffic"), width, height, parts);

	const rows = limits.map((l, at) => {
		const of = p.left[at], cap = Math.max(1, l.capacity), h = heights.left, floor = h - 6, yy = v => edge.top + 8 + (floor - edge.top - 8) * (1 - v / cap);
		const dx = inner / of.length, path = of.map((v, i) => `L${(edge.left + (i + .5) * dx).toFixed(1)} ${yy(v).toFixed(1)}`).join("");
		const line = `M${edge.left} ${yy(of[0])}${path}L${width - edge.right} ${yy(of.at(-1))}`;
		const row = svg("svg", {role: "img", "aria-label": `${l.slots ? "Slots" : "Tokens"} left of ${l.text}: from ${number(Math.min(...of))} to ${number(Math.max(...of))} of ${number(l.capacity)}`});
		frame(row, width, h, [
			svg("path", {class: "area", d: `${line}L${width - edge.right} ${floor}L${edge.left} ${floor}Z`}),
			...[0, cap].flatMap(v => [svg("line", {class: "grid", x1: edge.left, x2: width - edge.right, y1: yy(v), y2: yy(v)}), svg("text", {x: edge.left - 8, y: yy(v) + 4, class: "end"}, number(v))]),
			svg("path", {class: "line", d: line}),
			svg("text", {x: edge.left, y: edge.top - 6, class: "of"}, `${l.slots ? "slots" : l.unit || "tokens"} left of ${l.text}`),
		]);
		return row;
	});
	const axis = svg("svg", {"aria-hidden": "true"});
	frame(axis, width, 22, ticks(n).map(i => svg("text", {x: x(i), y: 15, class: i ? "middle" : ""}, label(p, i))));
	$("left").replaceChildren(...rows, axis);
	tell(Math.min(shown, n - 1));
}

const label = (p, i) => p.from ? p.times[i].slice(p.step >= 86400 ? 5 : 11, p.step >= 86400 ? 10 : p.step >= 60 ? 16 : 19) : p.times[i];

function frame(e, width, height, parts) {
	e.setAttribute("viewBox", `0 0 ${width} ${height}`);
	e.setAttribute("width", width);
	e.setAttribute("height", height);
	e.replaceChildren(...parts);
}

const hatch = () => svg("defs", {}, svg("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
	svg("rect", {width: 6, height: 6, class: "hatch-ground"}), svg("rect", {width: 2, height: 6, class: "hatch-line"})));

// tell says what is in a column, to who sees the readout and to who hears the slider.
function tell(i) {
	shown = i;
	const p = answer.picture, count = p.counts[i], denied = p.denied[i], parts = p.left[0].length / p.counts.length;
	const least = answer.limits.map((l, at) => `${number(Math.min(...p.left[at].slice(i * parts, (i + 1) * parts)))} ${l.slots ? "slots" : l.unit || "tokens"} left`);
	const text = `${p.from ? p.times[i] : "from " + p.times[i]}: ${number(count)} ${count === 1 ? "request" : "requests"}, ${number(count - denied)} allowed, ${number(denied)} denied; ${least.join(", ")}`;
	$("readout").textContent = text[0].toUpperCase() + text.slice(1);
	const slider = $("draw");
	slider.setAttribute("aria-valuemax", Math.max(count, 100_000));
	slider.setAttribute("aria-valuenow", count);
	slider.setAttribute("aria-valuetext", text);
	const here = $("traffic").querySelector(".here");
	here?.setAttribute("x", edge.left + i * ($("picture").clientWidth - edge.left - edge.right) / p.counts.length);
}

// Drawing: with the pointer, and with keys.
function edited() { // the counts to change; a traffic of times becomes counts
	const list = counts();
	if (list?.length) return list;
	if (!answer) return [];
	fields.step.value = `${answer.picture.step}s`;
	return [...answer.picture.counts];
}

function set(list) {
	fields.traffic.value = list.join(" ");
	compute();
}

const most = 100_000; // requests in a step
function point(event, from) {
	const box = $("traffic").getBoundingClientRect(), list = edited();
	const at = i => Math.max(0, Math.min(list.length - 1, i));
	const i = at(Math.floor((event.clientX - box.left - edge.left) / (box.width - edge.left - edge.right) * list.length));
	const inside = (event.clientY - box.top - edge.top) / (heights.traffic - 4 - edge.top);
	const count = Math.max(0, Math.min(most, Math.round(hold * (1 - inside))));
	const last = from ?? {i, count};
	for (let k = Math.min(i, at(last.i)); k <= Math.max(i, at(last.i)); k++) { // also what a fast pointer skipped
		list[k] = i === last.i ? count : Math.round(last.count + (count - last.count) * (k - last.i) / (i - last.i));
	}
	shown = i;
	set(list);
	return {i, count};
}

const drawing = $("draw");
let pen = null, touched = null; // touched is where a finger is that may be about to scroll
const put = e => { pen = point(e, pen); touched = null; };
drawing.addEventListener("pointerdown", e => {
	if (!answer || e.button) return;
	drawing.setPointerCapture(e.pointerId);
	hold = nice(Math.max(8, ...answer.picture.counts) * 1.1);
	if (e.pointerType === "touch") touched = e;
	else put(e);
});
drawing.addEventListener("pointermove", e => {
	if (touched) put(touched);
	if (pen) put(e);
	else if (answer) {
		const box = $("traffic").getBoundingClientRect(), n = answer.picture.counts.length;
		tell(Math.max(0, Math.min(n - 1, Math.floor((e.clientX - box.left - edge.left) / (box.width - edge.left - edge.right) * n))));
	}
});
drawing.addEventListener("pointerup", () => {
	if (touched) put(touched);
	lift();
});
drawing.addEventListener("pointercancel", lift);
function lift() {
	pen = touched = null;
	hold = 0;
	if (answer) draw();
}
drawing.addEventListener("keydown", e => {
	if (!answer || e.ctrlKey || e.metaKey || e.altKey) return;
	const n = answer.picture.counts.length, go = {ArrowLeft: -1, ArrowRight: 1}[e.key], by = {ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10}[e.key];
	if (go) tell(Math.max(0, Math.min(n - 1, shown + go)));
	else if (e.key === "Home" || e.key === "End") tell(e.key === "Home" ? 0 : n - 1);
	else if (by || e.key === "Delete" || e.key === "Backspace") {
		const list = edited();
		list[shown] = by ? Math.max(0, Math.min(most, list[shown] + by)) : 0;
		set(list);
	} else return;
	e.preventDefault();
});

// The controls.
for (const f of Object.values(fields)) f.addEventListener("input", compute);
for (const b of document.querySelectorAll("[data-shape]")) b.addEventListener("click", () => { fields.traffic.value = shape(shapes[b.dataset.shape]); compute(); });
for (const b of document.querySelectorAll("[data-example]")) b.addEventListener("click", () => {
	for (const [name, value] of Object.entries(examples[b.dataset.example])) fields[name].value = value;
	fields.cost.value = "1";
	compute();
});
for (const b of document.querySelectorAll(".copies[data-of]")) copies(b, () => $(b.dataset.of).textContent);
copies($("link"), () => new URL(link(), location.href).href);
$("ask").addEventListener("submit", e => e.preventDefault());
addEventListener("hashchange", () => { if (load()) compute(); });
new ResizeObserver(() => { if (answer) draw(); }).observe($("picture"));

fields.traffic.value = examples.client.traffic;
load();
compute();
