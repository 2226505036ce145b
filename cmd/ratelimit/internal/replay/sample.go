package replay

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// sampleDay is the first instant of the sample.
var sampleDay = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// sampleRequest is one line.
type sampleRequest struct {
	at     time.Duration // since sampleDay
	ip     string
	target string
	agent  string
}

const (
	browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	client  = `shop-sync/2.1 (\"nightly\")` // as servers log quotes
	script  = "curl/8.5.0"
	phone   = "ShopApp/7.2 (iPhone; iOS 26.1)"
)

// WriteSample writes an access log in the combined format that was never served:
// a day of a small service, for documentation and tests. It is the same each
// time, and has less than 200 KB. Its clients are:
//
//   - people, who open a page with a few requests at once, most of them in the
//     day
//   - an office of many people behind one address
//   - a partner whose job asks for 150 pages at 02:00, as fast as it can
//   - a script that was left in a loop, and asks every other second from 14:10
//     to 14:25
//   - a phone on IPv6, whose address changes within its network
//
// A few lines are out of order by some seconds, as servers write them.
func WriteSample(w io.Writer) error {
	r := rand.New(rand.NewPCG(2026, 3)) // always the same
	var list []sampleRequest
	for person := range 60 {
		ip := fmt.Sprintf("192.0.2.%d", person+1)
		if person >= 40 {
			ip = fmt.Sprintf("203.0.113.%d", person)
		}
		for range 1 + r.IntN(3) {
			list = append(list, visit(r, ip, browser)...)
		}
	}
	for range 30 {
		list = append(list, visit(r, "198.51.100.7", browser)...)
	}
	for page := range 150 {
		at := 2*time.Hour + time.Duration(page)*400*time.Millisecond
		list = append(list, sampleRequest{at, "198.51.100.200", fmt.Sprintf("/api/items?page=%d", page+1), client})
	}
	for n := range 450 {
		at := 14*time.Hour + 10*time.Minute + time.Duration(n)*2*time.Second
		list = append(list, sampleRequest{at, "203.0.113.250", "/api/search?q=stock", script})
	}
	for n := range 40 {
		at := 8*time.Hour + time.Duration(n)*15*time.Minute
		list = append(list, sampleRequest{at, fmt.Sprintf("2001:db8:1:2::%x", n%5+1), "/api/cart", phone})
	}
	slices.SortStableFunc(list, func(a, b sampleRequest) int { return int(a.at - b.at) })
	for i := 20; i < len(list); i += 97 {
		list[i], list[i-1] = list[i-1], list[i]
	}
	out := bufio.NewWriter(w)
	for _, q := range list {
		at := sampleDay.Add(q.at).Format("02/Jan/2006:15:04:05 -0700")
		_, _ = fmt.Fprintf(out, "%s - - [%s] \"GET %s HTTP/1.1\" 200 %d \"-\" \"%s\"\n", q.ip, at, q.target, 300+r.IntN(4000), q.agent)
	}
	return out.Flush()
}

// visit is one person on some pages.
func visit(r *rand.Rand, ip, agent string) (list []sampleRequest) {
	noon := 13.5*float64(time.Hour) + r.NormFloat64()*3.2*float64(time.Hour)
	at := time.Duration(math.Min(math.Max(noon, 0), 23.5*float64(time.Hour)))
	for range 1 + r.IntN(3) {
		item := 1 + r.IntN(500)
		list = append(list, sampleRequest{at, ip, fmt.Sprintf("/api/items/%d", item), agent})
		for range r.IntN(4) {
			list = append(list, sampleRequest{at + time.Duration(r.IntN(900))*time.Millisecond, ip, "/api/search?q=lamp", agent})
		}
		at += time.Duration(3+r.IntN(40)) * time.Second
	}
	return list
}
