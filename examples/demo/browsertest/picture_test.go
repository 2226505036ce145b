package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/input"
)

// TestReadmePictures takes the README's pictures, demo.png and demo-dark.png, into the directory DEMO_README_PICTURES. They
// show two users whose buckets drain, a time without Redis, and a verdict.
func TestReadmePictures(t *testing.T) {
	dir := os.Getenv("DEMO_README_PICTURES")
	if dir == "" {
		t.Skip("set DEMO_README_PICTURES to a directory")
	}
	for name, scheme := range map[string]func(*tab){"demo.png": light, "demo-dark.png": dark} {
		p := start(t)
		s := slow()
		s["key"], s["interval_ms"] = "user", 1000
		p.set(s)
		b := p.open(scheme)
		b.viewport(1280, 962, false)
		b.verdict("outage")
		b.fill("#steady-rate", "6")
		b.click("#steady")
		said := `(id => Number((document.querySelector(id).textContent.match(/(\d+) denied/) ?? [0, 0])[1]))`
		b.wait("ann is denied", said+`("#said-steady") >= 6`)
		js[any](b, `document.activeElement.blur(), scrollTo({top: 0, behavior: "instant"})`)
		b.mouse(input.DispatchMouseEventTypeMouseMoved, xy{2, 2})
		for range 5 {
			p.ask("chi", "bob")
		}
		b.wait("bob's bucket has drained a little, and drops are in the air", `Number(document.querySelector(".bucket[data-key$='bob'] .level").dataset.tokens) < 8 &&
			document.querySelectorAll(".air .drop").length >= 2 && /^429/.test(document.querySelector("#answer").textContent) && document.querySelector("#countdown").textContent !== ""`)
		if err := os.WriteFile(filepath.Join(dir, name), b.save(name), 0o644); err != nil {
			t.Error(err)
		}
	}
}
