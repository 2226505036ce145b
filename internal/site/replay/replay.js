// Replay of an access log. The log is read, and all that is shown made, by the code of the command ratelimit replay: replay.wasm.
import {Program, copies} from "../program.js";

const program = new Program("replay/replay.wasm");
const $ = id => document.getElementById(id);
const number = n => n.toLocaleString("en");

// The report has a style sheet of its own, and the colours of the site.
const report = $("report").attachShadow({mode: "open"});
const sheet = new CSSStyleSheet();
report.adoptedStyleSheets = [sheet];
program.ask("style").then(css => sheet.replaceSync(css + own), wrong);
const own = ".report { --paper: var(--page); --denied: var(--no); --wash: var(--no-tint); font-family: var(--type) } header .soft { margin-top: .25rem }";

let log = null;     // the file, or null for the sample
let read = null;    // what was read of it
let under = null;   // what is under way, to cancel
let last = null;    // what was shown last
let center = null;  // the middle of the sliders

function wrong(error) {
	$("wrong").hidden = !error;
	$("wrong").textContent = error ? error.message ?? String(error) : "";
}

function busy(text, part) {
	$("under").hidden = !text;
	if (!text) return;
	if ($("doing").textContent !== text) $("doing").textContent = text;
	if (part === undefined) $("progress").removeAttribute("value");
	else $("progress").value = part;
}

// begin cancels what is under way.
function begin() {
	under?.abort(new DOMException("cancelled", "AbortError"));
	under = new AbortController();
	return under;
}

// Reading.
const options = () => Object.fromEntries(["key", "format", "time", "only", "skip", "zone"].map(id => [id, $(id).value]));
async function open(file) {
	const mine = begin(), name = file ? file.name : "the sample";
	[log, read, last, center] = [file, null, null, null];
	wrong();
	for (const id of ["limit", "keep"]) $(id).hidden = true;
	$("reread").hidden = false;
	report.replaceChildren();
	busy(`Reading ${name} …`, 0);
	try {
		read = await program.ask("read", {...options(), sample: !file}, {file, signal: mine.signal, told: ({lines, part}) => {
			busy(`Reading ${name}: ${number(Math.floor(lines / 10_000) * 10_000 || lines)} lines …`, part);
		}});
	} catch (e) {
		if (under === mine) ended(e, `${name} was not read.`);
		return;
	}
	$("limit").hidden = false;
	await play({limit: $("try").value});
}

// ended tells why something that was under way has no end.
function ended(e, cancelled) {
	busy();
	if (e.name !== "AbortError") return wrong(e);
	$("says").textContent = "Cancelled.";
	wrong({message: `Cancelled: ${cancelled}`});
}

// Replaying. What is denied comes first, and the smallest changes when they are found.
async function play(what) {
	const mine = begin();
	wrong();
	$("try-wrong").textContent = "";
	$("try").removeAttribute("aria-invalid");
	const many = read.requests > 50_000;
	busy(many && "Replaying …", 0);
	const show = shown => {
		if (under !== mine) return;
		last = shown;
		draw(shown, what);
	};
	try {
		show(await program.ask("play", what, {signal: mine.signal, told: said => {
			if (under !== mine) return;
			if (!("report" in said)) return busy(many && "Replaying …", said.part);
			show(said);
			if (many) busy("Searching for the smallest changes …");
		}}));
		if (under === mine) busy();
	} catch (e) {
		if (under !== mine) return;
		if (!e.said) return ended(e, last ? "the report is that of the last limit, as far as it came." : "nothing was replayed.");
		busy();
		$("try-wrong").textContent = e.message;
		$("try").setAttribute("aria-invalid", "true");
	}
}

function draw(shown, what) {
	report.innerHTML = shown.report; // html/template made it, and escaped what comes from the log
	for (const e of report.querySelectorAll("[data-style]")) e.style.cssText = e.dataset.style;
	if ($("says").textContent !== shown.lead) $("says").textContent = shown.lead;
	if (!center || !what.rate && !what.burst) center = {rate: shown.rate, burst: shown.burst}; // a limit that was typed
	if (document.activeElement !== $("try")) $("try").value = shown.limit;
	for (const [id, at] of [["rate", shown.rate], ["burst", shown.burst]]) {
		const slider = $(id), text = id === "rate" ? `${number(shown.rate)}/${shown.per}` : number(shown.burst);
		if (document.activeElement !== slider || !what[id]) slider.value = position(id, at);
		$(`${id}-says`).textContent = text;
		slider.setAttribute("aria-valuetext", text);
	}
	$("keep").hidden = false;
	$("command").textContent = command(shown.limit);
}

// The sliders go from a 50th to 50 times of the limit that was typed, each step by the same factor.
const reach = 50, half = 200;
const position = (id, value) => Math.round(half + half * Math.log(value / center[id]) / Math.log(reach));
function value(id) {
	const exact = center[id] * reach ** (($(id).value - half) / half);
	if (Number($(id).value) === half) return center[id];
	const digits = 10 ** (Math.floor(Math.log10(exact)) - 1), round = Math.round(exact / digits) * digits;
	if (id === "burst" || center.rate >= 1 && round >= 10) return Math.max(1, Math.round(round));
	return Number(round.toPrecision(2));
}

// command is the same on the command line.
function command(limit) {
	const quoted = s => /^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`;
	const flags = {key: "-key", format: "-format", only: "-only", skip: "-skip", zone: "-zone"}, given = options();
	const words = ["ratelimit", "replay", "-limit", quoted(limit)];
	for (const [id, flag] of Object.entries(flags)) if (given[id] && given[id] !== "auto") words.push(flag, quoted(given[id]));
	if (given.time) words.push("-field", quoted(`time=${given.time}`));
	const name = log ? log.name : "access.log";
	words.push(quoted(name.startsWith("-") ? `./${name}` : name));
	return words.join(" ");
}

// The controls.
$("file").addEventListener("change", () => { if ($("file").files.length) open($("file").files[0]); $("file").value = ""; });
$("sample").addEventListener("click", () => open(null));
$("reread").addEventListener("click", () => open(log));
$("cancel").addEventListener("click", () => under?.abort(new DOMException("cancelled", "AbortError")));
let typing;
$("try").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => { if (read) play({limit: $("try").value}); }, 300); });
for (const id of ["rate", "burst"]) $(id).addEventListener("input", () => {
	if (!last) return;
	const now = {limit: last.limit, rate: id === "rate" ? value(id) : last.rate, burst: id === "burst" ? value(id) : last.burst};
	last = {...last, rate: now.rate, burst: now.burst};
	play(now);
});
$("limit").addEventListener("submit", e => { e.preventDefault(); if (read) play({limit: $("try").value}); });
$("choose").addEventListener("submit", e => e.preventDefault());
$("save").addEventListener("click", async () => {
	try {
		const {html} = await program.ask("save");
		const link = document.createElement("a");
		link.href = URL.createObjectURL(new Blob([html], {type: "text/html"}));
		link.download = "report.html";
		link.click();
		setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
	} catch (e) {
		wrong(e);
	}
});
copies($("copy"), () => $("command").textContent);

// Files that are dropped anywhere on the page.
let over = 0;
const drags = on => $("drop").classList.toggle("over", on);
addEventListener("dragenter", e => { e.preventDefault(); over++; drags(true); });
addEventListener("dragleave", () => { if (--over <= 0) { over = 0; drags(false); } });
addEventListener("dragover", e => e.preventDefault());
addEventListener("drop", e => {
	e.preventDefault();
	over = 0;
	drags(false);
	const files = [...e.dataTransfer.files];
	if (files.length > 1) wrong({message: `Drop one log at a time: these are ${files.length}.`});
	else if (files.length) open(files[0]);
});
