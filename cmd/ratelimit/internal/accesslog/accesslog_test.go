package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
)

var noon = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// read returns the values of a field of each request, and what is wrong with
// other lines by their numbers.
func read(t testing.TB, log io.Reader, field string) (values []string, bad map[int]string, err error) {
	t.Helper()
	bad = make(map[int]string)
	err = accesslog.Read(log, func(l *accesslog.Line) error {
		values = append(values, l.Value(field))
		return nil
	}, func(number int, why error) { bad[number] = why.Error() })
	return values, bad, err
}

func TestServersLogTheSameRequestInTheirFormats(t *testing.T) {
	const combined = `192.0.2.1 - - [02/Mar/2026:13:00:00 +0100] "GET /a?q=1 HTTP/1.1" 200 12 "-" "curl/8.5.0"`
	for format, c := range map[string]struct{ log, address string }{
		"combined":                {combined, "remote_addr"},
		"common":                  {`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /a?q=1 HTTP/1.1" 200 12`, "remote_addr"},
		"combined with a host":    {`api.example.com:443 192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /a?q=1 HTTP/1.1" 200 12 "-" "x"`, "remote_addr"},
		"main, of nginx":          {combined + ` "203.0.113.7"`, "remote_addr"},
		"Windows line ends":       {"\r\n" + combined + "\r\n\r\n", "remote_addr"},
		"a byte order mark":       {"\ufeff" + combined, "remote_addr"},
		"JSON of nginx":           {`{"msec":"1772452800.000","remote_addr":"192.0.2.1","request_method":"GET","request_uri":"/a?q=1","status":"200"}`, "remote_addr"},
		"JSON of nginx, ISO 8601": {`{"time_iso8601":"2026-03-02T13:00:00+01:00","remote_addr":"192.0.2.1","request_method":"GET","request_uri":"/a?q=1","status":200}`, "remote_addr"},
		"Caddy":                   {`{"level":"info","ts":1772452800,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a?q=1"},"status":200}`, "request.remote_ip"},
		"Traefik": {`{"ClientHost":"192.0.2.1","RequestMethod":"GET","RequestPath":"/a?q=1","DownstreamStatus":200,` +
			`"StartUTC":"2026-03-02T12:00:00Z","time":"2026-03-02T12:00:09Z"}`, "ClientHost"},
	} {
		requests := 0
		err := accesslog.Read(strings.NewReader(c.log), func(l *accesslog.Line) error {
			requests++
			assert.Equal(t, noon, l.Time, format)
			for field, want := range map[string]string{"method": "GET", "target": "/a?q=1", "status": "200", c.address: "192.0.2.1"} {
				assert.Equal(t, want, l.Value(field), "%s: %s", format, field)
			}
			return nil
		}, func(_ int, why error) { t.Errorf("%s: %v", format, why) })
		require.NoError(t, err, format)
		assert.Equal(t, 1, requests, format)
	}
}

func TestFieldsOfTheCombinedFormat(t *testing.T) {
	for line, want := range map[string][2]string{
		`2001:db8::1 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:                                      {"remote_addr", "2001:db8::1"},
		`203.0.113.7, 10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:                            {"remote_addr", "203.0.113.7, 10.0.0.5"},
		`203.0.113.7,10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:                             {"remote_addr", "203.0.113.7,10.0.0.5"},
		`example.com 1.2.3.4, 10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:                    {"remote_addr", "1.2.3.4, 10.0.0.5"},
		`192.0.2.1 - ann b. [x] y [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:                             {"remote_user", "ann b. [x] y"},
		`192.0.2.1 - 10.0.0.1 [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:                                 {"remote_user", "10.0.0.1"},
		`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /a b HTTP/1.1" 200 1`:                                     {"target", "/a b"},
		`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /old" 200 1`:                                              {"target", "/old"},
		`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "\x16\x03\x01" 400 0`:                                          {"status", "400"},
		`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "a \"b\" \x22c\x22 \\ d"`:           {"http_user_agent", `a "b" "c" \ d`},
		`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /\q HTTP/1.1" 200 1 "https://example.com/" "x" "-" "0.1"`: {"http_referer", "https://example.com/"},
		`10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x" "1.2.3.4, 203.0.113.7"`:          {"http_x_forwarded_for", "1.2.3.4, 203.0.113.7"},
		`10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x" "0.004"`:                         {"http_x_forwarded_for", ""},
		`10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "REDACTED"`:                          {"http_user_agent", ""},
	} {
		values, bad, err := read(t, strings.NewReader(line), want[0])
		require.NoError(t, err)
		assert.Empty(t, bad, line)
		assert.Equal(t, []string{want[1]}, values, line)
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Time{
		`1772452800.25`: noon.Add(250 * time.Millisecond), `1772452800250`: noon.Add(250 * time.Millisecond), `1772452800250000`: noon.Add(250 * time.Millisecond),
		`1772452800250000000`: noon.Add(250 * time.Millisecond), `"1772452800.25"`: noon.Add(250 * time.Millisecond), `"2026-03-02T12:00:00.25Z"`: noon.Add(250 * time.Millisecond),
		`"2026-03-02T13:00:00,25+01:00"`: noon.Add(250 * time.Millisecond), `"2026-03-02T13:00:00+0100"`: noon, `"02/Mar/2026:13:00:00 +0100"`: noon, `0`: time.Unix(0, 0).UTC(),
	} {
		values := 0
		err := accesslog.Read(strings.NewReader(`{"time":`+text+`}`), func(l *accesslog.Line) error {
			values++
			assert.WithinDuration(t, want, l.Time, time.Microsecond, text)
			return nil
		}, func(_ int, why error) { t.Errorf("%s: %v", text, why) })
		require.NoError(t, err)
		assert.Equal(t, 1, values, text)
	}
	for _, text := range []string{
		`-1`, `"NaN"`, `"Inf"`, `1e300`, `4000000000`, `"soon"`, `"1969-12-31T23:59:59Z"`, `"2200-01-01T00:00:00Z"`, `""`, `null`, `{}`, `[]`, `"2026-02-30T00:00:00Z"`, `"2026-03-02T12:00:00"`,
	} {
		values, bad, err := read(t, strings.NewReader(`{"time":`+text+`}`), "time")
		require.NoError(t, err)
		assert.Empty(t, values, text)
		assert.Contains(t, bad[1], "the time must be", text)
	}
}

// A line that is no request is reported with its number, and those around it
// are read.
func TestLinesThatAreNoRequests(t *testing.T) {
	const good = `{"time":1772452800,"ip":"192.0.2.1"}`
	for line, says := range map[string]string{
		`{"time":17`:                      "the line is not JSON",
		`{"time":1}{"time":2}`:            "the line is not JSON",
		`[1]`:                             "the line is neither JSON nor in the combined log format",
		`ready, listening on port 80`:     "the line is neither JSON nor in the combined log format",
		"\x00\x00\xff":                    "the line is neither JSON nor in the combined log format",
		`192.0.2.1 - - [now] "GET / HT`:   "the line is neither JSON nor in the combined log format",
		`192.0.2.1 - - [now] "GET /" 200`: "the time must be",
		`{"ip":"192.0.2.1"}`:              "the time must be",
		`203.0.113.7 10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:          "the line begins with two addresses",
		`1.2.3.4, 10.0.0.5 203.0.113.7 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`: "the line begins with two addresses",
		`1.2.3.4,10.0.0.5 203.0.113.7 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:  "the line begins with two addresses",
		`a.example 1.2.3.4 10.0.0.5 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`:    "the line begins with two addresses",
		`{"time":1,"ip":"192.0.2.1","ip":"192.0.2.2"}`:                                          `the line has the member "ip" twice`,
		`{"time":1,"request":{"headers":{"X-Forwarded-For":1,"X-Forwarded-For":2}}}`:            `the line has the member "request.headers.X-Forwarded-For" twice`,
		`{"time":1,"request.uri":"/a","request":{"uri":"/b"}}`:                                  `the line has the member "request.uri" twice`,
		strings.Repeat("[", 100_000):                                                      "the line is neither JSON",
		`{"time":` + strings.Repeat("[", 100_000):                                         "the line is not JSON",
		`{"time":1,"a":"` + strings.Repeat("x", 3<<20) + `"}`:                             "the line has 1048576 bytes or more",
		`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "` + strings.Repeat("x", 1<<20) + `"`: "the line has 1048576 bytes or more",
	} {
		values, bad, err := read(t, strings.NewReader(good+"\n"+line+"\n"+good), "ip")
		require.NoError(t, err)
		assert.Equal(t, []string{"192.0.2.1", "192.0.2.1"}, values, "%.80s", line)
		require.Len(t, bad, 1, "%.80s", line)
		assert.Contains(t, bad[2], says, "%.80s", line)
	}
}

func TestALineOfNearlyAMebibyteIsRead(t *testing.T) {
	line := `{"time":1,"a":"` + strings.Repeat("x", 1<<20-20) + `"}`
	values, bad, err := read(t, strings.NewReader(line+"\n"+line), "time")
	require.NoError(t, err)
	assert.Empty(t, bad)
	assert.Len(t, values, 2)
}

// zipped compresses n copies of a text.
func zipped(t testing.TB, text string, n int) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	for range n {
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return z.Bytes()
}

func TestWhatStandsBeforeABreakIsRead(t *testing.T) {
	log := zipped(t, `{"time":1,"ip":"192.0.2.1"}`+"\n", 50_000)
	values, bad, err := read(t, bytes.NewReader(log), "ip")
	require.NoError(t, err)
	assert.Len(t, values, 50_000, "gzip is known by its content")
	assert.Empty(t, bad)

	values, _, err = read(t, bytes.NewReader(log[:len(log)/2]), "ip")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Greater(t, len(values), 1000)
	values, _, err = read(t, bytes.NewReader(append(log, log...)), "ip")
	require.NoError(t, err)
	assert.Len(t, values, 100_000, "files that were compressed each on its own can stand in one")

	_, _, err = read(t, strings.NewReader("\x1f\x8bnonsense"), "ip")
	require.ErrorIs(t, err, gzip.ErrHeader)
	_, _, err = read(t, iotest.ErrReader(iotest.ErrTimeout), "ip")
	require.ErrorIs(t, err, iotest.ErrTimeout)
	values, bad, err = read(t, strings.NewReader(""), "ip")
	require.NoError(t, err, "an empty log is no mistake")
	assert.Empty(t, values)
	assert.Empty(t, bad)
}

func TestALogThatGrowsWhenItIsUnpackedNeedsLittleMemory(t *testing.T) {
	for _, content := range []string{strings.Repeat("\x00", 1<<20), strings.Repeat("{"+strings.Repeat(" ", 1<<16)+"\n", 16)} {
		log := zipped(t, content, 128)
		require.Less(t, len(log), 1<<20, "the premise: it is small")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := accesslog.Read(bytes.NewReader(log), nil, func(int, error) {})
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		require.Less(t, after.Sys, before.Sys+64<<20, "not the 128 MiB that it has")
	}
}

// Whatever is in a log, each of its lines is a request, is reported, or is
// blank.
func FuzzRead(f *testing.F) {
	f.Add(`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1 HTTP/1.1" 200 12 "-" "a \"b\" \x2" "1.2.3.4, ::1"`)
	f.Add("{\"time\":1772452800.5,\"a\":{\"b\":[1,null]}}\n\n{")
	f.Add("a, b c [d] \"e")
	f.Fuzz(func(t *testing.T, log string) {
		values, bad, err := read(t, strings.NewReader(log), "target")
		if err != nil {
			return // gzip
		}
		blank, lines := 0, strings.Split(log, "\n")
		for _, line := range lines {
			if strings.TrimSpace(strings.TrimPrefix(line, "\ufeff")) == "" {
				blank++
			}
		}
		require.Len(t, lines, len(values)+len(bad)+blank)
	})
}

// A value of JSON is read as encoding/json reads it.
func FuzzJSON(f *testing.F) {
	f.Add("a\"\\\n<é\x00")
	f.Fuzz(func(t *testing.T, value string) {
		if value = strings.ToValidUTF8(value, "?"); value == "-" || value == "REDACTED" {
			value = "" // they stand for no value
		}
		line, err := json.Marshal(map[string]any{"time": 1, "a": map[string]any{"b": []string{value}}})
		require.NoError(t, err)
		values, bad, err := read(t, bytes.NewReader(line), "a.b")
		require.NoError(t, err)
		require.Empty(t, bad)
		require.Equal(t, []string{value}, values)
	})
}
