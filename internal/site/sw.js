// The site without a network: what it last was, as a whole. With a network each file comes from there, so a page is never
// older than the site.
const version = "VERSION", files = ["FILES"];
const ours = "ratelimit-site:" + registration.scope + ":"; // other sites of the host have caches too

addEventListener("install", event => event.waitUntil((async () => {
	const cache = await caches.open(ours + version);
	await cache.addAll(files.map(file => new Request(file, {cache: "no-cache"})));
	await skipWaiting();
})()));

addEventListener("activate", event => event.waitUntil((async () => {
	for (const name of await caches.keys()) {
		if (name.startsWith(ours) && name !== ours + version) await caches.delete(name);
	}
	await clients.claim();
})()));

addEventListener("fetch", event => {
	const request = event.request;
	if (request.method !== "GET" || !request.url.startsWith(registration.scope)) return;
	event.respondWith((async () => {
		try {
			return await fetch(request);
		} catch (gone) {
			const cache = await caches.open(ours + version);
			const kept = await cache.match(request, {ignoreSearch: true});
			if (kept) return kept;
			throw gone;
		}
	})());
});
