package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// round is what go test prints for two peers in a round.
func round(ours, peer string) string {
	return "goos: linux\ncpu: Processor 1\n" +
		"BenchmarkRedis/goroutines=64/peer=ratelimit-2 \t 1000\t " + ours + " ns/op\t 4000 server-ns/op\t 3 allocs/op\n" +
		"BenchmarkRedis/goroutines=64/peer=redis_rate+AutoPipeline-2 \t 900\t 20000 ns/op\n" +
		"BenchmarkRedis/goroutines=64/peer=redis_rate-2 \t 1000\t " + peer + " ns/op\t 16000 server-ns/op\t 21 allocs/op\n" +
		"PASS\n"
}

func TestTablesShowMediansAndTheRatiosWithinRounds(t *testing.T) {
	r := newResults()
	for _, out := range []string{round("5000", "10000"), round("10000", "40000"), round("8000", "24000")} {
		require.NoError(t, r.add(out))
	}
	require.Equal(t, "Processor 1", r.cpu)
	require.Equal(t, `### Redis

`+pageTables[0].text+`

| decisions/s by goroutines | 1 | 4 | 64 | 512 | server CPU µs | bytes |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| ratelimit | – | – | 125k (×3) | – | 4 (×0.25) | – |
| redis_rate+AutoPipeline | – | – | 50k (×1.20) | – | – | – |
| redis_rate | – | – | 41.7k | – | 16 | – |

`, r.tables())
}

func TestPeersOfAFrameworkAreComparedWithEachOther(t *testing.T) {
	r := newResults()
	for peer, ns := range map[string]string{"gin/ulule": "100", "chi/httprate": "1000"} {
		require.NoError(t, r.add("BenchmarkMiddleware/peer="+peer+"-2 1 "+ns+" ns/op\n"))
	}
	require.NoError(t, r.add("BenchmarkMiddleware/peer=chi/ratelimit-2 1 1500 ns/op\n"))
	require.Contains(t, r.tables(), "| chi/ratelimit | 1500 (×1.50) |")
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00001: "0", 0.0031: "0.003", 0.083: "0.08", 0.5: "0.50", 1.234: "1.23",
		3: "3", 21: "21", 9.996: "10.0", 12.34: "12.3", 123.4: "123", 9876.6: "9877",
		12345: "12.3k", 999_600: "1.00M", 2_860_000: "2.86M",
	} {
		require.Equal(t, want, number(v), v)
	}
}

func TestMeasuredReplacesOnlyWhatStandsBetweenTheMarks(t *testing.T) {
	page := "# Benchmarks\n\n" + begin + "\n\nold\n\n" + end + "\n\n## What is left\n"
	got, err := replaceMeasured([]byte(page), "new\n\n")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(page, "old", "new", 1), string(got))
	_, err = replaceMeasured([]byte("# Benchmarks\n"), "new")
	require.ErrorContains(t, err, "are missing")
}
