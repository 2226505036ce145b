// What tests add to a page: it tells the guard of problems, and finds elements as a user perceives them.
(() => {
	const problem = (...parts) => navigator.sendBeacon("/browsertest.problem", parts.map(p => String(p) + (p?.stack ? ` at ${p.stack}` : "")).join(" "));
	for (const level of ["error", "warn", "assert"]) {
		const log = console[level].bind(console);
		console[level] = (...args) => {
			if (level !== "assert" || !args[0]) problem(`console.${level}:`, ...args);
			log(...args);
		};
	}
	addEventListener("error", e => problem("an exception was not caught, or a file not found:", e.message ?? "", e.error ?? e.target?.outerHTML ?? ""), true);
	addEventListener("unhandledrejection", e => problem("a rejection was not handled:", e.reason));
	addEventListener("securitypolicyviolation", e => problem("the page's policy forbids", e.violatedDirective, e.blockedURI, e.sourceFile, e.lineNumber));

	const blanks = text => text.replace(/\s+/g, " ").trim();
	const text = e => blanks(e.innerText ?? e.textContent);
	const native = [
		["button", "button, summary, input[type=button], input[type=submit], input[type=reset]"], ["link", "a[href]"],
		["checkbox", "input[type=checkbox]"], ["radio", "input[type=radio]"], ["slider", "input[type=range]"], ["spinbutton", "input[type=number]"],
		["textbox", "input:not([type]), input[type=text], textarea"], ["combobox", "select"], ["heading", "h1, h2, h3, h4, h5, h6"],
		["img", "img"], ["table", "table"], ["row", "tr"], ["group", "fieldset, details"], ["region", "section"], ["status", "output"], ["main", "main"],
	];
	const role = e => e.getAttribute("role") ?? native.find(([, selector]) => e.matches(selector))?.[0] ?? "";
	const name = e => {
		const ids = e.getAttribute("aria-labelledby");
		if (ids) return blanks(ids.split(/\s+/).map(id => document.getElementById(id)?.textContent ?? "").join(" "));
		return blanks(e.getAttribute("aria-label") ?? "") || blanks([...e.labels ?? []].map(l => l.textContent).join(" ")) ||
			e.getAttribute("alt") || text(e) || (e.matches("input") && e.value) || e.getAttribute("title") || "";
	};
	const candidates = wanted => [...document.querySelectorAll("*")].filter(e => role(e) === wanted && e.checkVisibility({visibilityProperty: true}) && !e.closest("[aria-hidden=true]"));
	const matching = (wanted, called) => {
		const all = candidates(wanted), exact = all.filter(e => name(e) === called);
		return exact.length ? exact : all.filter(e => name(e).includes(called));
	};
	const find = (wanted, called) => {
		const found = matching(wanted, called);
		if (found.length === 1) return found[0];
		const names = (found.length ? found : candidates(wanted)).map(name);
		throw new Error(`${found.length} such are visible, of these: ${JSON.stringify(names)}`);
	};

	window.browsertest = {
		text, find, met: false,

		// aim says where the mouse meets an element, and watches for an event there.
		aim(wanted, called, event) {
			const e = find(wanted, called);
			if (e.disabled) throw new Error("it is disabled");
			const seen = e.getBoundingClientRect();
			if (seen.top < 0 || seen.bottom > innerHeight || seen.left < 0 || seen.right > innerWidth) e.scrollIntoView({block: "center", behavior: "instant"});
			const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, hit = document.elementFromPoint(x, y);
			if (!hit || !(e.contains(hit) || [...e.labels ?? []].some(l => l.contains(hit)))) throw new Error("in its place is " + (hit?.outerHTML.slice(0, 200) ?? "nothing"));
			this.met = false;
			e.addEventListener(event, () => { this.met = true }, {capture: true, once: true});
			return {x, y};
		},

		// choose sets what can't be typed, or reports that the value must be typed in place of what it has selected.
		choose(wanted, called, value) {
			const e = find(wanted, called);
			e.focus();
			if (!e.matches("select, input[type=range]")) {
				e.select();
				return true;
			}
			e.value = value;
			for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, {bubbles: true}));
			return false;
		},
	};
})();
