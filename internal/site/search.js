// The search, in an index that the build made: all words must be in a section, its heading or its page's title, at the begin
// of a word.
const form = document.querySelector(".search"), input = form.querySelector("input"), list = document.querySelector("#found"), says = document.querySelector("#found-says");
const top = new URL(".", import.meta.url), most = 10, around = 60;
let sections, chosen = -1, links = [];

// load gets the index, once, when somebody turns to the search.
const load = () => sections ??= fetch(new URL("search.json", top)).then(r => r.json()).catch(e => { sections = undefined; throw e; });

// begins finds where a word begins in a text: after what is no letter or digit, and where a capital follows a small letter,
// as in PerMinute.
function begins(text, word) {
	const lower = text.toLowerCase();
	if (lower.length !== text.length) return lower.indexOf(word); // a letter that has no equal
	for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + 1)) {
		if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]) || !/[\p{L}\p{N}]/u.test(word[0])) return at;
		if (/\p{Lu}/u.test(text[at]) && /\p{Ll}/u.test(text[at - 1])) return at;
	}
	return -1;
}

// rate says how well a section answers, or 0 if it lacks a word.
function rate(section, words) {
	let points = 0;
	for (const word of words) {
		const page = begins(section.page, word), title = begins(section.section ?? "", word), text = begins(section.text, word);
		if (page < 0 && title < 0 && text < 0) return 0;
		points += (title >= 0 ? 6 : 0) + (page >= 0 ? section.section ? 2 : 7 : 0) + (text >= 0 ? Math.min(3, section.text.toLowerCase().split(word).length - 1) : 0);
		if (new RegExp(`^${RegExp.escape?.(word) ?? word.replace(/[^\p{L}\p{N}]/gu, "\\$&")}$`, "iu").test(section.section ?? section.page)) points += 5;
	}
	return points;
}

// mark adds a text to an element, with the begins of words marked.
function mark(element, text, words) {
	let at = 0;
	while (at < text.length) {
		let next = text.length, length = 0;
		for (const word of words) {
			const found = begins(text.slice(at), word);
			if (found >= 0 && at + found < next) [next, length] = [at + found, word.length];
		}
		element.append(text.slice(at, next));
		if (length === 0) break;
		element.append(Object.assign(document.createElement("mark"), {textContent: text.slice(next, next + length)}));
		at = next + length;
	}
}

// excerpt is the part of a text that has the first of the words.
function excerpt(text, words) {
	const places = words.map(word => begins(text, word)).filter(at => at >= 0);
	let from = places.length ? Math.min(...places) - around : 0;
	if (from <= 0) from = 0;
	else from = text.indexOf(" ", from) + 1;
	const rest = text.slice(from, from + 3 * around);
	return (from > 0 ? "… " : "") + rest + (from + rest.length < text.length ? " …" : "");
}

function choose(n) {
	links[chosen]?.setAttribute("aria-selected", "false");
	chosen = n;
	links[n]?.setAttribute("aria-selected", "true");
	links[n]?.scrollIntoView({block: "nearest"});
	if (links[n]) input.setAttribute("aria-activedescendant", links[n].id);
	else input.removeAttribute("aria-activedescendant");
}

function close() {
	list.hidden = true;
	input.setAttribute("aria-expanded", "false");
	choose(-1);
}

async function find() {
	const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
	if (words.length === 0) {
		says.textContent = "";
		return close();
	}
	let all;
	try {
		all = await load();
	} catch {
		list.replaceChildren(Object.assign(document.createElement("p"), {textContent: "The index of the search can’t be loaded."}));
		list.hidden = false;
		return;
	}
	if (words.join() !== input.value.toLowerCase().split(/\s+/).filter(Boolean).join()) return; // somebody typed on
	const found = all.map((section, i) => ({section, i, points: rate(section, words)})).filter(f => f.points > 0);
	found.sort((a, b) => b.points - a.points || a.i - b.i);
	links = found.slice(0, most).map(({section}, i) => {
		const link = Object.assign(document.createElement("a"), {href: new URL(section.path, top), id: `found-${i}`, tabIndex: -1});
		link.setAttribute("role", "option");
		link.setAttribute("aria-selected", "false");
		const title = document.createElement("b"), text = document.createElement("small");
		mark(title, section.section ?? section.page, words);
		if (section.section) title.append(Object.assign(document.createElement("span"), {textContent: ` · ${section.page}`}));
		mark(text, excerpt(section.text, words), words);
		link.append(title, text);
		link.addEventListener("mousemove", () => { if (chosen !== i) choose(i); });
		link.addEventListener("click", close);
		return link;
	});
	list.replaceChildren(...links);
	if (links.length === 0) list.append(Object.assign(document.createElement("p"), {textContent: "No section has all these words."}));
	says.textContent = links.length === 0 ? "Nothing found" : found.length === 1 ? "1 result" : `${found.length} results`;
	list.hidden = false;
	input.setAttribute("aria-expanded", String(links.length > 0));
	chosen = -1;
	choose(links.length > 0 ? 0 : -1);
}

input.addEventListener("focus", () => { load().catch(() => {}); });
input.addEventListener("input", find);
input.addEventListener("keydown", event => {
	if (event.isComposing) return;
	const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
	if (step && !list.hidden && links.length > 0) {
		event.preventDefault();
		choose((chosen + step + links.length) % links.length);
	} else if (event.key === "Escape") {
		event.preventDefault();
		if (list.hidden) input.value = "";
		close();
	}
});
form.addEventListener("submit", event => {
	event.preventDefault();
	links[chosen]?.click();
});
form.addEventListener("focusout", event => { if (!form.contains(event.relatedTarget)) close(); });
list.addEventListener("mousedown", event => event.preventDefault()); // the focus stays in the field
addEventListener("keydown", event => {
	if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea, [contenteditable]")) return;
	event.preventDefault();
	input.focus();
	input.select();
});
form.hidden = false;
