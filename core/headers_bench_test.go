package core_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// BenchmarkWriteHeaders measures what the fields of a style cost a response on
// net/http: WriteHeaders, and writing them to the connection. The bucket is
// that of docs/headers.md.
func BenchmarkWriteHeaders(b *testing.B) {
	for _, style := range []struct {
		name   string
		fields core.HeaderStyle
	}{{"Default", core.HeadersDefault}, {"Legacy", core.HeadersLegacy}, {"Draft8", core.HeadersDraft8}, {"Draft6", core.HeadersDraft6}} {
		b.Run(style.name, func(b *testing.B) {
			store := core.NewMemoryStore(core.WithClock(func() time.Time { return noon }))
			l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(10).WithBurst(20)}, Headers: style.fields}))
			res, err := l.AllowN(b.Context(), "k", 13)
			if err != nil || !res.Allowed || res.Remaining != 7 {
				b.Fatal("premise: 7 of 20 tokens are left", res, err)
			}
			h := http.Header{}
			res.WriteHeaders(h)
			var sent strings.Builder
			_ = h.Write(&sent)
			b.ReportAllocs()
			for b.Loop() {
				clear(h)
				res.WriteHeaders(h)
				_ = h.Write(io.Discard)
			}
			b.ReportMetric(float64(sent.Len()), "B/response")
		})
	}
}
