package peers

// Settings that differ from defaults:
//
//   - clients of go-redis: ContextTimeoutEnabled; PoolSize where a row says so
//   - ratelimit: WithTimeout(3 * time.Second), core.FailClosed: stalls and outages show
//   - throttled: SetMaxCASAttemptsLimit(1_000_000), because a hot key fails with 10; in memory no bound
//   - httprate-redis: FallbackDisabled; gin-rate-limit: PanicOnErr
//   - windows, and the expiry of tollbooth's and echo's buckets: an hour
//   - tollbooth: IPLookup RemoteAddr; httprate: KeyByIP; gin: release mode
//   - Redis: no snapshots, no append-only file
