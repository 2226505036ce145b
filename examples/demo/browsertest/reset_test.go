package browsertest

import (
	"net/http"
	"testing"
)

// Also those are filled that the page has forgotten: of another kind of key, or of another demo.
func TestFillingFillsEveryBucketInRedis(t *testing.T) {
	t.Parallel()
	flags := onRedis(t)
	p, other := start(t, flags...), start(t, flags...)
	each, all := slow(), slow()
	each["key"], each["capacity"] = "user", 2
	p.set(each)
	other.set(each)
	ask := func(p *process, user string, want int) {
		t.Helper()
		if status, _ := p.ask("gin", user); status != want {
			t.Fatalf("%s is answered %d, want %d", user, status, want)
		}
	}
	for _, want := range []int{200, 200, 429} {
		ask(p, "zoe", want)
		ask(other, "yan", want)
	}
	p.set(all)
	resp, err := http.Post(p.url+"/api/reset", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("filling is answered %s", resp.Status)
	}
	p.set(each)
	ask(p, "zoe", 200)
	ask(p, "yan", 200)
}
