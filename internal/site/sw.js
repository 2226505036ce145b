// The site without a network: it keeps all files, and a later version of it fetches what has changed. With a network each
// file comes from there, so a page is never older than the site.
const files = {"FILES": ""}; // what has its content, by path
const scope = registration.scope, ours = "ratelimit-site:" + scope; // other sites of the host have caches too
const key = name => new URL(`${name}?${files[name]}`, scope).href;

addEventListener("install", event => event.waitUntil((async () => {
	const cache = await caches.open(ours);
	await Promise.all(Object.keys(files).map(async name => {
		if (await cache.match(key(name))) return;
		const response = await fetch(new URL(name, scope), {cache: "no-cache"});
		if (!response.ok) throw new Error(`${name}: HTTP status ${response.status}`);
		await cache.put(key(name), response.redirected ? new Response(response.body, response) : response); // a page must not be a redirected one
	}));
	await skipWaiting();
})()));

addEventListener("activate", event => event.waitUntil((async () => {
	const cache = await caches.open(ours), used = new Set(Object.keys(files).map(key));
	for (const request of await cache.keys()) {
		if (!used.has(request.url)) await cache.delete(request);
	}
	await clients.claim();
})()));

// called is a file as its URL has it: hosts leave out index.html, and some .html.
const called = path => [path.replace(/(^|\/)index\.html$/, "$1"), path + ".html", path + "/"].find(name => name in files);

addEventListener("fetch", event => {
	const request = event.request;
	if (request.method !== "GET" || !request.url.startsWith(scope)) return;
	event.respondWith((async () => {
		try {
			return await fetch(request);
		} catch (gone) {
			const name = called(new URL(request.url).pathname.slice(new URL(scope).pathname.length));
			const kept = name !== undefined && await (await caches.open(ours)).match(key(name));
			if (kept) return kept;
			throw gone;
		}
	})());
});
