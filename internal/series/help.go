package series

// What metrics packages say that each metric is.
const (
	TokensHelp        = "Tokens that decisions asked buckets for, each at most the smallest Capacity of the policy."
	DurationHelp      = "How long decisions took, waits for Redis and the fallback included."
	BreakerStateHelp  = "What the circuit breaker of a store does: 0 closed, 1 half-open, 2 open."
	BreakerOpenedHelp = "How often the circuit breaker of a store opened."
	FallbackHelp      = "For how long the circuit breaker of a store was not closed, so that each policy's OnFailure decided."
	DenyCacheHelp     = "Denials that were known to hold still and repeated without asking Redis."
	LeasedHelp        = "Decisions on tokens that this process had leased ahead."
)
