package browsertest

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// filmed notes what each frame shows, whenever any of it changes: the number, the discs, the end of the strip, the lid, the tag, how
// many requests are on their way, and the number of the decision that was written down last.
const filmed = `(() => {
	window.testFilm = [];
	const svg = document.querySelector("#picture"), shown = (e) => e && e.getAttribute("visibility") !== "hidden";
	const look = () => {
		const line = document.querySelector("#strip .left").getAttribute("d") ?? "", row = document.querySelector("#rows tr"), high = line.match(/[V ]([\d.]+)(?:H[\d.]+)?$/)?.[1];
		const frame = {
			number: Number(svg.querySelector(".number").textContent),
			discs: [...svg.querySelectorAll(".tokens:not(.air) .token")].filter(shown).length,
			strip: Math.round((62 - Number(high)) / 42 * parseInt(document.querySelector("#strip .of").textContent)),
			lid: Boolean(shown(svg.querySelector(".lid"))), tag: shown(svg.querySelector(".tag")) ? svg.querySelector(".tag").textContent : "",
			asks: svg.querySelectorAll(".pill.asks").length,
			id: Number(row?.cells[0].textContent ?? 0), left: Number(row?.cells[6].textContent ?? 0), status: Number(row?.cells[5].textContent ?? 0),
		};
		if (JSON.stringify(frame) !== JSON.stringify(testFilm.at(-1))) testFilm.push(frame);
		requestAnimationFrame(look);
	};
	requestAnimationFrame(look);
})()`

type frame struct {
	Number, Discs, Strip   int
	Lid                    bool
	Tag                    string
	Asks, ID, Left, Status int
}

// Every frame shows what the server's log says of the decision that was drawn last: number, discs, strip, lid and tag, none ahead of
// another.
func TestEveryFrameIsWhatTheServerSays(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		for name, look := range map[string]browser.Look{"motion": {}, "reduced motion": {ReducedMotion: true}} {
			t.Run(name, func(t *testing.T) {
				p := start(t)
				page := p.full(in, look)
				browser.JS[any](page, filmed)
				page.Click("button", "Send 15 at once")
				page.Wait("all are written down", `document.querySelectorAll("#rows tr").length === 30 && testFilm.at(-1).asks === 0`)
				film := browser.JS[[]frame](page, `testFilm`)
				log := map[int]decision{}
				for _, d := range p.log("drain") {
					log[d.ID] = d
				}
				asked := 0
				for _, f := range film {
					asked = max(asked, f.Asks)
					if f.Number != f.Discs || f.Number != f.Strip {
						t.Errorf("a frame shows the number %d, %d discs, and %d at the end of the strip", f.Number, f.Discs, f.Strip)
					}
					if d := log[f.ID]; f.ID > 15 && (f.Left != d.Remaining || f.Status != d.Status || f.Number != d.Remaining) {
						t.Errorf("a frame shows %d tokens, and the log has %d left after decision %d, status %d", f.Number, d.Remaining, f.ID, d.Status)
					}
					if f.Lid != (f.Number == 0) {
						t.Errorf("a frame shows %d tokens, and a rim that is closed: %v", f.Number, f.Lid)
					}
					if f.ID > 15 && (f.Tag != "") != (f.Status == 429) {
						t.Errorf("a frame shows the tag %q after status %d", f.Tag, f.Status)
					}
				}
				if (asked > 0) == look.ReducedMotion {
					t.Errorf("premise: %d requests were on their way in one frame", asked)
				}
				if last := film[len(film)-1]; last.ID != 30 || last.Number != 0 {
					t.Errorf("the film ends with decision %d and %d tokens", last.ID, last.Number)
				}
			})
		}
	})
}

// Tokens that come back are drawn as they come.
func TestTokensComeBackOneByOne(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.full(in, browser.Look{})
		p.set(map[string]any{"interval_ms": 400})
		browser.JS[any](page, filmed)
		page.Click("button", "Send 15 at once")
		page.Wait("it was drained, and is full again", `testFilm.some(f => f.number < 3) && testFilm.at(-1).number === 10`)
		before, drained := 10, false
		for _, f := range browser.JS[[]frame](page, `testFilm`) {
			drained = drained || f.ID == 30
			if f.Number != f.Discs || drained && f.Number < before || !drained && f.Number > before+1 {
				t.Errorf("after %d tokens a frame shows the number %d and %d discs", before, f.Number, f.Discs)
			}
			if f.Tag != "" && f.Number > 0 {
				t.Errorf("beside %d tokens stands %q", f.Number, f.Tag)
			}
			before = f.Number
		}
	})
}

// A page at rest draws no frames and asks for nothing.
func TestAnIdlePageCostsNothing(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.in(in, browser.Look{})
		page.Wait("it comes to rest", `await (async () => {
			let frames = 0;
			const real = window.requestAnimationFrame;
			window.requestAnimationFrame = (f) => { frames++; return real(f); };
			await new Promise(done => setTimeout(done, 1500));
			window.requestAnimationFrame = real;
			return frames === 0 && document.querySelector("#picture .number").textContent === "10";
		})()`)
	})
}
