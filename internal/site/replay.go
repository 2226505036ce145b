package main

// writeReplay adds the page that replays an access log in the browser.
func writeReplay(out *output) error {
	return out.addProgram(page{
		Path: "replay/index.html", Top: "Replay",
		Title:       "What would a limit have denied?",
		Description: "Drop an access log, and see what a limit would have denied, and the smallest limit that spares honest clients. The log stays on your machine.",
	}, "replay", sharedStyle, "replay/replay.css")
}
