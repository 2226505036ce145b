// What every page does: it has the site kept for use without a network, and copies code.
if ("serviceWorker" in navigator && isSecureContext && !navigator.connection?.saveData) {
	const register = () => navigator.serviceWorker.register(new URL("sw.js", import.meta.url)).catch(() => {}); // a private window may forbid it
	if (document.readyState === "complete") register();
	else addEventListener("load", register);
}

const pages = document.querySelector(".pages"), here = pages?.querySelector("[aria-current]");
if (here && here.offsetTop > pages.clientHeight - 80) pages.scrollTop = here.offsetTop - pages.clientHeight / 2;

for (const pre of document.querySelectorAll(".text pre")) {
	const button = document.createElement("button");
	button.type = "button";
	button.className = "copy";
	button.textContent = "Copy";
	button.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(pre.textContent);
			button.textContent = "Copied";
		} catch {
			button.textContent = "Not allowed";
		}
		setTimeout(() => { button.textContent = "Copy"; }, 2000);
	});
	const frame = document.createElement("div");
	frame.className = "code";
	pre.replaceWith(frame);
	frame.append(pre, button);
}
