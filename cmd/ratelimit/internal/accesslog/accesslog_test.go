package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
)

// noon is the time of most lines.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).UnixMicro()

// read returns fields of each line of a log, and what can't be read.
func read(t testing.TB, log string, o accesslog.Options, fields ...string) (lines [][]string, times []int64, bad []accesslog.Bad, err error) {
	t.Helper()
	err = accesslog.Read(strings.NewReader(log), o, func(l *accesslog.Line) error {
		var values []string
		for _, f := range fields {
			values = append(values, string(l.Value(f)))
		}
		lines, times = append(lines, values), append(times, l.Micros)
		return nil
	}, func(b accesslog.Bad) { bad = append(bad, b) })
	return lines, times, bad, err
}

func TestFormats(t *testing.T) {
	usual := []string{"192.0.2.1", "GET", "/a b", "/a%20b?q=1&k=x%2By", "200", "x+y"}
	for rule, c := range map[string]struct {
		log    string
		fields map[string]string
	}{
		"combined":                 {log: `192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1&k=x%2By HTTP/1.1" 200 12 "-" "x"`},
		"another zone":             {log: `192.0.2.1 - - [02/Mar/2026:21:30:00 +0930] "GET /a%20b?q=1&k=x%2By HTTP/1.1" 200 12 "-" "x"`},
		"common":                   {log: `192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1&k=x%2By HTTP/1.1" 200 12`},
		"a host in front":          {log: `example.com:443 192.0.2.1 - ann [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1&k=x%2By HTTP/1.1" 200 12 "-" "x"`},
		"a user with spaces":       {log: `192.0.2.1 - ann lee [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1&k=x%2By HTTP/1.1" 200 12 "-" "x"`},
		"a user with brackets":     {log: `192.0.2.1 - [02/Mar/2020:12:00:00 +0000] x] a[b [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1&k=x%2By HTTP/1.1" 200 12 "-" "x"`},
		"a user with a quote":      {log: `192.0.2.1 - a] \"GET / [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1&k=x%2By HTTP/1.1" 200 12 "-" "x"`},
		"Windows line ends":        {log: "192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] \"GET /a%20b?q=1&k=x%2By HTTP/1.1\" 200 12 \"-\" \"x\"\r\n\r\n"},
		"a byte order mark":        {log: "\xef\xbb\xbf192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] \"GET /a%20b?q=1&k=x%2By HTTP/1.1\" 200 12 \"-\" \"x\"\n"},
		"JSON of nginx":            {log: `{"time_iso8601":"2026-03-02T12:00:00+00:00","remote_addr":"192.0.2.1","request_method":"GET","request_uri":"/a%20b?q=1&k=x%2By","status":"200"}`},
		"JSON of Caddy":            {log: `{"ts":1772452800.0,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/a%20b?q=1&k=x%2By"},"status":200}`},
		"JSON with ms":             {log: `{"ts":1772452800000,"ip":"192.0.2.1","method":"GET","url":"/a%20b?q=1\u0026k=x%2By","status":200}`},
		"JSON with fields by name": {`{"when":"2026-03-02T14:00:00+02:00","time":"no","cf":{"ip":"192.0.2.1"},"method":"GET","url":"/a%20b?q=1&k=x%2By","status":200}`, map[string]string{"time": "when", "ip": "cf.ip"}},
		"CSV":                      {log: "time,ip,method,path,status\n2026-03-02 12:00:00,192.0.2.1,GET,/a%20b?q=1&k=x%2By,200\n"},
		"CSV with spaces":          {log: "time, ip, \"method\", path, status\n2026-03-02 12:00:00, 192.0.2.1, \"GET\", /a%20b?q=1&k=x%2By, 200\n"},
		"values between tabs":      {log: "time\tuser\tip\tmethod\tpath\tstatus\n2026-03-02 12:00:00\t\t192.0.2.1\tGET\t/a%20b?q=1&k=x%2By\t200\n"},
		"CSV with semicolons":      {log: "time;ip;method;path;status\r\n\"2026-03-02 12:00:00,000\";192.0.2.1;GET;\"/a%20b?q=1&k=x%2By\";200\r\n"},
	} {
		lines, times, bad, err := read(t, c.log, accesslog.Options{Fields: c.fields}, "ip", "method", "path", "target", "status", "query:k")
		require.NoError(t, err, rule)
		assert.Empty(t, bad, rule)
		assert.Equal(t, [][]string{usual}, lines, rule)
		assert.Equal(t, []int64{noon}, times, rule)
	}
}

func TestQuotesAndFieldsBehindTheUserAgent(t *testing.T) {
	log := `2001:db8::1 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "a \"b\" \x22c\x22 \\ d" "tenant-1" "-"`
	lines, _, bad, err := read(t, log, accesslog.Options{}, "ip", "user_agent", "extra1", "extra2", "referer")
	require.NoError(t, err)
	assert.Empty(t, bad)
	assert.Equal(t, [][]string{{"2001:db8::1", `a "b" "c" \ d`, "tenant-1", "", ""}}, lines, "a dash is no value")
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]int64{
		"1772452800.25": noon + 250_000, "1772452800250": noon + 250_000, "1772452800250000": noon + 250_000, "1772452800250000000": noon + 250_000,
		"2026-03-02T12:00:00.25Z": noon + 250_000, "2026-03-02T13:00:00,250+01:00": noon + 250_000, "2026-03-02T13:00:00+0100": noon, "0": 0,
	} {
		_, times, bad, err := read(t, "time\tip\n"+text+"\t192.0.2.1\n", accesslog.Options{})
		require.NoError(t, err)
		assert.Empty(t, bad, text)
		require.Len(t, times, 1, text)
		assert.InDelta(t, want, times[0], 1, text)
	}
	for _, text := range []string{"-1", "NaN", "Inf", "1e300", "soon", "1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z", ""} {
		_, times, bad, _ := read(t, "time\tip\n"+text+"\t192.0.2.1\n", accesslog.Options{})
		assert.Len(t, bad, 1, "a limiter can't decide at %q", text)
		assert.Empty(t, times, text)
	}
}

// Times without a zone that clocks show twice are known, and no others.
func TestTimesThatClocksShowTwice(t *testing.T) {
	for name, c := range map[string]struct{ day, first, last string }{
		"Europe/Berlin": {"2026-10-25", "02:00:00", "02:59:59.999999"}, "Australia/Lord_Howe": {"2026-04-05", "01:30:00", "01:59:59.999999"},
		"America/New_York": {"2026-11-01", "01:00:00", "01:59:59.999999"},
	} {
		zone, err := accesslog.ParseZone(name)
		require.NoError(t, err)
		day, err := time.Parse(time.DateOnly, c.day)
		require.NoError(t, err)
		for minute := range 24 * 60 {
			for _, micros := range []int{0, 59_999_999} {
				clock := day.Add(time.Duration(minute)*time.Minute + time.Duration(micros)*time.Microsecond)
				text := clock.Format("15:04:05.999999")
				for _, suffix := range []string{"", "Z"} {
					err := accesslog.Read(strings.NewReader("time,ip\n"+c.day+"T"+text+suffix+",192.0.2.1\n"), accesslog.Options{Zone: zone}, func(l *accesslog.Line) error {
						assert.Equal(t, suffix == "" && c.first <= text && text <= c.last, l.Twice, "%s %s %s", name, text, suffix)
						return nil
					}, nil)
					require.NoError(t, err)
				}
			}
		}
	}
}

// A line that can't be read is reported with its number, and the next one is
// read.
func TestBadLines(t *testing.T) {
	good := `{"time":1772452800,"ip":"192.0.2.1"}`
	for rule, bad := range map[string]string{
		"half an object": `{"time":17`, "a list": "[1]", "no time": `{"ip":"192.0.2.1"}`, "zeros": "\x00\x00", "deep": strings.Repeat("[", 100_000),
		"longer than 1 MiB": `{"a":"` + strings.Repeat("x", 3<<20) + `"}`,
	} {
		_, times, bads, err := read(t, good+"\n"+bad+"\n"+good+"\n", accesslog.Options{})
		require.NoError(t, err, rule)
		assert.Len(t, times, 2, "the lines around are read: %s", rule)
		require.Len(t, bads, 1, rule)
		assert.Equal(t, 2, bads[0].Number, rule)
		assert.LessOrEqual(t, len(bads[0].Text), 200, rule)
	}
	greeting, times, bads, err := read(t, "ready, listening on port 80\n192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n", accesslog.Options{}, "ip")
	require.NoError(t, err)
	assert.Len(t, bads, 1, "a line with a comma is no header of CSV without the name of a time")
	assert.Len(t, times, 1)
	assert.Equal(t, [][]string{{"192.0.2.1"}}, greeting)
	_, times, bads, err = read(t, "time,ip\n1772452800,\"192\n1772452800,192.0.2.1\n", accesslog.Options{})
	require.NoError(t, err)
	assert.Len(t, times, 1, "a quote that is not closed spoils its line alone")
	assert.Len(t, bads, 1)
}

// The longest line that is read is as long as the message about longer ones
// says, with and without its end.
func TestLongestLine(t *testing.T) {
	line := func(length int) string {
		return `{"time":1,"a":"` + strings.Repeat("x", length-len(`{"time":1,"a":""}`)) + `"}`
	}
	for _, end := range []string{"", "\n", "\r\n", "\n" + line(50)} {
		for _, longer := range []int{-1, 0, 1, 2, 3, 1 << 16} {
			_, times, bad, err := read(t, line(1<<20+longer)+end, accesslog.Options{})
			require.NoError(t, err)
			n := strings.Count(end, "{")
			if longer > 0 {
				require.Len(t, bad, 1, "%d bytes more, and %q", longer, end)
				require.ErrorContains(t, bad[0].Err, "longer than 1048576 bytes")
				require.Len(t, times, n)
				continue
			}
			require.Empty(t, bad, "%d bytes more, and %q", longer, end)
			require.Len(t, times, n+1)
		}
	}
}

// PowerShell, for one, writes what a command prints as UTF-16.
func TestUTF16IsNamed(t *testing.T) {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		_, _, _, err := read(t, mark+"1\x009\x00", accesslog.Options{})
		require.ErrorContains(t, err, "the text is UTF-16: save it as UTF-8")
	}
}

func TestLogsThatBreakOff(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	for range 50_000 {
		_, err := w.Write([]byte(`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "` + time.Now().String() + "\"\n"))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	_, whole, bad, err := read(t, z.String(), accesslog.Options{})
	require.NoError(t, err)
	assert.Len(t, whole, 50_000, "gzip is known by its content")
	assert.Empty(t, bad)
	_, part, bad, err := read(t, z.String()[:z.Len()/2], accesslog.Options{})
	require.ErrorContains(t, err, "unexpected EOF")
	assert.Greater(t, len(part), 1000, "what stands before the break is read")
	assert.Empty(t, bad, "a line that breaks off is not reported as one")
	err = accesslog.Read(strings.NewReader("\x1f\x8bnonsense"), accesslog.Options{}, nil, nil)
	require.ErrorContains(t, err, "gzip")
	_, times, bad, err := read(t, "", accesslog.Options{})
	require.NoError(t, err, "an empty file is no mistake")
	assert.Empty(t, times)
	assert.Empty(t, bad)
	err = accesslog.Read(iotest.ErrReader(iotest.ErrTimeout), accesslog.Options{}, nil, nil)
	require.ErrorIs(t, err, iotest.ErrTimeout)
}

// FuzzRead checks that each line that is not blank is either a request or a bad
// line, whatever is in it.
func FuzzRead(f *testing.F) {
	f.Add(`192.0.2.1 - - [02/Mar/2026:12:00:00 +0000] "GET /a%20b?q=1 HTTP/1.1" 200 12 "-" "a \"b\" \x2"`)
	f.Add("time,ip\n1,\"2\n3,4\r\n")
	f.Add("{\"time\":1772452800.5,\"a\":{\"b\":[1,null]}}\n\n{")
	f.Add("a [b] \"c")
	f.Fuzz(func(t *testing.T, log string) {
		for _, format := range accesslog.Formats {
			lines, times, bad, err := read(t, log, accesslog.Options{Format: format}, "time", "ip", "path", "query:q", "user_agent", "a.b", "extra1")
			if err != nil {
				continue // gzip
			}
			blank, all := 0, strings.Split(strings.TrimPrefix(log, "\xef\xbb\xbf"), "\n")
			for _, line := range all {
				if len(bytes.TrimSpace([]byte(strings.TrimSuffix(line, "\r")))) == 0 {
					blank++
				}
			}
			missing := len(all) - blank - len(lines) - len(bad)
			if missing != 0 && (missing != 1 || format != "csv" && format != "auto") { // the names of a CSV
				t.Errorf("%s: %d lines are neither requests nor bad", format, missing)
			}
			for _, at := range times {
				if at < 0 || at > 4_500_000_000_000_000 {
					t.Errorf("%s: a limiter can't decide at %d", format, at)
				}
			}
		}
	})
}

// FuzzCSV compares with encoding/csv.
func FuzzCSV(f *testing.F) {
	f.Add(`"a ""b""",c`)
	f.Add(`a"b,c`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n\x00") || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "\x1f\x8b") {
			t.Skip("several lines, an empty one, or a gzip header: other tests have these")
		}
		reader := csv.NewReader(strings.NewReader("1," + line + "\n"))
		reader.TrimLeadingSpace = true
		want, err := reader.Read()
		lines, _, bad, _ := read(t, "time,a\n1,"+line+"\n1,next\n", accesslog.Options{Format: "csv"}, "a")
		if err != nil {
			require.Len(t, bad, 1)
			require.Equal(t, [][]string{{"next"}}, lines, "the next line is read")
			return
		}
		require.Len(t, lines, 2)
		if want[1] == "-" {
			want[1] = ""
		}
		require.Equal(t, want[1], lines[0][0])
	})
}

// FuzzJSON compares with encoding/json.
func FuzzJSON(f *testing.F) {
	f.Add("a\"\\\n<é\x00")
	f.Fuzz(func(t *testing.T, value string) {
		if value = strings.ToValidUTF8(value, "?"); value == "-" {
			t.Skip("it stands for none")
		}
		line, err := json.Marshal(map[string]any{"time": 1, "a": map[string]string{"b": value}})
		require.NoError(t, err)
		lines, _, bad, err := read(t, string(line), accesslog.Options{}, "a.b")
		require.NoError(t, err)
		require.Empty(t, bad)
		require.Equal(t, [][]string{{value}}, lines)
	})
}
