package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// TestReadmePictures takes the README's pictures, demo.png and demo-dark.png, into the directory DEMO_README_PICTURES:
// the chapter in which Redis is lost, with what came of it.
func TestReadmePictures(t *testing.T) {
	dir := os.Getenv("DEMO_README_PICTURES")
	if dir == "" {
		t.Skip("set DEMO_README_PICTURES to a directory")
	}
	for name, dark := range map[string]bool{"demo.png": false, "demo-dark.png": true} {
		page := browser.Chromium.Open(t, start(t).url, browser.Look{Width: 1100, Height: 1000, Dark: dark, ReducedMotion: true})
		page.Wait("the chapter is drawn", `document.querySelector("#lose svg").childElementCount`)
		page.Click("button", "Lose Redis for 4 seconds")
		page.Wait("what came of it is said, and nothing is under way", `document.querySelector("#f-lose .redis.off") && /twice the limit\.$/.test(document.querySelector("#v-lose").textContent) && !document.querySelector("#f-lose .pill")`)
		if err := os.WriteFile(filepath.Join(dir, name), page.Element("#lose", 24), 0o644); err != nil {
			t.Error(err)
		}
	}
}
