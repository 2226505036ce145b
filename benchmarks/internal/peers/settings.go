package peers

// Settings are all that differ from defaults, for the report.
var Settings = []string{
	"clients of go-redis: `ContextTimeoutEnabled`; `PoolSize` where a row says so (default: ten connections a core)",
	"ratelimit: `WithTimeout(3 * time.Second)` (100 ms), `OnFailure: core.FailClosed` (FailLocal), so that a stall of the machine or an outage is not hidden",
	"throttled: `SetMaxCASAttemptsLimit(1_000_000)` (10), for with ten a hot key fails; its store in memory without a bound",
	"httprate-redis, whose client can't be given: `FallbackDisabled`, `FallbackTimeout` 3 s (100 ms)",
	"gin-rate-limit: `PanicOnErr`, so that an error is seen",
	"fixed and sliding windows: an hour; tollbooth and echo's: buckets expire after an hour",
	"tollbooth: `IPLookup` `RemoteAddr`; httprate: `KeyByIP`, its quicker one; gin: release mode",
	"Redis: no snapshots, no append-only file",
}
