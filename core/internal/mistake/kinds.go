package mistake

// Kind is a kind of mistake or failure, by its code. docs/errors.md has a section
// for each: go generate ./core/internal/mistake/page writes it.
type Kind struct {
	Code     string
	Fields   []string // of mistakes in configurations: what lastName returns for their field, or the function in front of it
	Reasons  []string // how reasons of mistakes begin that can occur in any field
	Messages []string // what the library says, from the start or from behind a colon; … stands for what is left out
	Advice   string   // in Markdown, if the message is not enough
}

// Kinds are all codes, in their order.
var Kinds = []Kind{
	{
		Code:   "RL101",
		Fields: []string{"name"},
		Messages: []string{
			"Policy.Name: \"\" is required (RL101)",
			"Policy.Name: \"api-v2\" must stay \"api\": … (RL101)",
		},
		Advice: "Names of policies and limits are printable ASCII, at most 128 bytes. To rename a policy make a new limiter.",
	},
	{
		Code:     "RL102",
		Fields:   []string{"capacity"},
		Messages: []string{"Policy.Limits[0].Capacity: 0 must be from 1 to 999999999999999 tokens (RL102)"},
		Advice:   "The Capacity is the largest burst, in whole tokens: `core.PerMinute(60).WithBurst(10)`, or in text `60/min burst 10`.",
	},
	{
		Code:     "RL103",
		Fields:   []string{"refillrate"},
		Messages: []string{"WithLimits[0].RefillRate: 0.3333333333333333 has too many decimals for this Capacity (RL103)"},
		Advice:   "The RefillRate is above 0 and fills the bucket within 100 years. For a slow rate write a longer interval: `core.Per(1, 3*time.Minute)`.",
	},
	{
		Code:     "RL104",
		Fields:   []string{"refillinterval"},
		Messages: []string{"… 30ns must be at least 1µs: … (RL104)"},
		Advice:   "The RefillInterval is from 1 µs to 100 years, with a unit.",
	},
	{
		Code:     "RL105",
		Fields:   []string{"mode"},
		Messages: []string{"Policy.Limits[0].Mode: Mode(7) must be Continuous, Stepped, Aligned or Concurrent (RL105)"},
		Advice:   "[The modes](choosing-limits.md#which-mode).",
	},
	{
		Code:     "RL106",
		Fields:   []string{"unit"},
		Messages: []string{"Limit.Unit: \"Tokens\" must not have capitals: write \"tokens\" (RL106)"},
		Advice:   "The Unit is printable ASCII without capitals, at most 128 bytes. For two units write two limits.",
	},
	{
		Code:     "RL107",
		Fields:   []string{"location"},
		Messages: []string{"Limit.Location: \"here\" is not what time.LoadLocation returns for this name, so it can't be written as text (RL107)"},
		Advice:   "Write a name of the IANA database. If the process has no time zone data, import `time/tzdata`.",
	},
	{
		Code:     "RL108",
		Fields:   []string{"anchor"},
		Messages: []string{"Policy.Limits[7].Anchor: \"0001-01-01T00:00:00Z\" must be between 1900 and 2200 (RL108)"},
		Advice:   "The Anchor is the day on which a period begins: `10_000/month from 2025-10-31`.",
	},
	{
		Code:     "RL109",
		Fields:   []string{"limits", "withlimits"},
		Messages: []string{"Policy.Limits: 0 limits: at least one is required (RL109)"},
		Advice:   "In a file it is a list: `limits: [1/s]`. To limit nothing, leave the middleware out, or use `WithSkip`.",
	},
	{
		Code:   "RL110",
		Fields: []string{"limit"},
		Messages: []string{
			"Limit: \"10 per minute\" is not a limit: \"per\" must be followed by / and an interval, or by at once; write it as 60/min burst 20 (RL110)",
			"line 4:9: policies[0].limits[0]: must be text, such as \"60/min burst 20\" (RL110)",
		},
		Advice: "[How a limit is written](policies.md#a-limit-as-a-string). A limit that counts tokens is `100_000 tokens/min`.",
	},
	{
		Code:     "RL111",
		Fields:   []string{"overrides", "blocked", "setexception"},
		Messages: []string{"Policy.Overrides.user:…: 0 limits: at least one is required (RL111)"},
		Advice: "Of [overrides](policies.md#overrides), [blocked keys](policies.md#blocked-keys) and [exceptions](policies.md#exceptions-while-services-run). Keys can\n" +
			"be secret, so messages show only what stands before the first colon; `Field` of the `ConfigError` has the whole key.",
	},
	{
		Code:     "RL112",
		Fields:   []string{"onfailure"},
		Messages: []string{"Policy.OnFailure: FailureMode(9) must be FailLocal, FailOpen or FailClosed (RL112)"},
		Advice:   "[Which one](failure.md).",
	},
	{
		Code:     "RL113",
		Fields:   []string{"localshare"},
		Messages: []string{"Policy.LocalShare: 1.5 must be above 0 and at most 1 (0 means 1) (RL113)"},
		Advice:   "With 4 replicas write 0.25: [LocalShare](failure.md#the-three-modes).",
	},
	{
		Code:     "RL114",
		Fields:   []string{"headers", "header"},
		Messages: []string{"Policy.Headers: HeadersDraft8|HeadersDraft6 must be … (RL114)"},
		Advice:   "[What each sends](headers.md#the-styles).",
	},
	{
		Code:     "RL115",
		Reasons:  []string{"is the name of"},
		Messages: []string{"… \"daily\" is the name of Policy.Limits[2] already: give each limit a name of its own (RL115)"},
		Advice:   "Two limits of a policy, or two policies of a file, would be one bucket.",
	},
	{
		Code:     "RL117",
		Reasons:  []string{"is a unit that"},
		Messages: []string{"… \"token\" is a unit that policy \"api\" counts and this middleware never takes, … (RL117)"},
		Advice: "Middleware takes requests alone without [`WithUnits` and `WithSettle`](middleware.md#options). If handlers take the unit themselves, give it a\n" +
			"`WithUnits` that returns nil. Shadow mode allows this.",
	},
	{
		Code:    "RL118",
		Fields:  []string{"maxhold"},
		Reasons: []string{"has a limit of"},
		Messages: []string{
			"Policy.Limits[0].MaxHold: 30ns must be from 1ms to 720h (30 days): … (RL118)",
			"… \"llm\" has a limit of tokens with a MaxHold, and this middleware settles nothing, … (RL118)",
		},
		Advice: "MaxHold is how long a request holds [slots](choosing-limits.md#rate-or-slots) or an [estimate](language-models.md#estimates-that-come-back), so a\n" +
			"limit of requests has none. Without `WithSettle` every estimate would come back. If handlers settle, let it return nil.",
	},
	{
		Code:     "RL119",
		Reasons:  []string{"is no limit of", "would be "},
		Messages: []string{"Policy.Overrides.user:…[0].Name: \"minuet\" is no limit of the policy and its plans: … (RL119)"},
		Advice: "Name the limit as the policy does: [names](policies.md#overrides). Of [exceptions](policies.md#exceptions-while-services-run) only the one with the\n" +
			"mistake is not obeyed.",
	},
	{
		Code:     "RL120",
		Fields:   []string{"plans", "withplan"},
		Messages: []string{"WithPlan: \"gold\" is no plan of the policy: it has \"pro\" (RL120)"},
		Advice:   "See [plans](policies.md#plans).",
	},
	{
		Code:     "RL121",
		Fields:   []string{"penalty"},
		Messages: []string{"Policy.Limits[0].Penalty: 0s must be from 1ms to 720h (30 days) (RL121)"},
		Advice:   "A [penalty](choosing-limits.md#a-penalty) is how long a client that is denied gets nothing more. Slots and limits with a MaxHold have none.",
	},
	{
		Code:     "RL201",
		Messages: []string{"policies: open no/policies.yaml: no such file or directory (RL201)"},
	},
	{
		Code:     "RL202",
		Messages: []string{"line 1:11: invalid YAML: sequence end token ']' not found (RL202)"},
		Advice:   "The mistake is here or just before: an open bracket or quote, a tab that indents.",
	},
	{
		Code:     "RL203",
		Messages: []string{"line 1:11: anchors and aliases are not read: write the value out (RL203)"},
		Advice:   "Nor are tags, complex keys (`? key`) and a second document.",
	},
	{
		Code:     "RL204",
		Messages: []string{"line 1: the file is too large: at most 256 KiB are read (RL204)"},
		Advice: "Size (256 KiB), YAML tokens (20,000), nesting and keys (256 bytes) are bounded. About 700 policies fit: load more from several files. Only the first 100\n" +
			"mistakes are reported.",
	},
	{
		Code:     "RL206",
		Messages: []string{"line 4:5: policies[0]: unknown field \"onFailure\": the fields of a policy are … (RL206)"},
	},
	{
		Code:     "RL207",
		Messages: []string{"line 3:5: policies[0]: is given a second time (RL207)"},
	},
	{
		Code:   "RL208",
		Fields: []string{"policy"},
		Messages: []string{
			"line 1:11: policies: must be a list of policies: … (RL208)",
			"line 5:13: policies[0].shadow: must be true or false (RL208)",
		},
		Advice: "A value has the wrong kind. At the top, or under `policies`, is a list:\n" +
			"\n" +
			"```yaml\n" +
			"- name: api\n" +
			"  limits: [60/min]\n" +
			"```",
	},
	{
		Code:     "RL209",
		Fields:   []string{"reload limiter"},
		Messages: []string{"policyfile.Reload limiters[1]: \"login\" is the policy of this limiter, and not in the file (RL209)"},
		Advice:   "`Reload` has changed no policy.",
	},
	{
		Code:     "RL301",
		Fields:   []string{"newlimiter"},
		Messages: []string{"NewLimiter store: \"MemoryStore{}\" must come from NewMemoryStore (RL301)"},
		Advice:   "The error of the store's constructor was ignored.",
	},
	{
		Code:   "RL302",
		Fields: []string{"new client", "open url"},
		Messages: []string{
			"redisstore.Open url: (not shown) must be a URL, not host and port alone: write redis://… (RL302)",
			"redisstore.New client: (not shown) must have host:port for each address, … (RL302)",
		},
		Advice: "The URL begins with `redis://`, `rediss://` or `unix://` and names one server. Percent-encode characters such as `/` and `?` in its password. It may have\n" +
			"a password at a wrong place, so it is not shown.",
	},
	{
		Code:     "RL303",
		Fields:   []string{"redisstore option"},
		Messages: []string{"redisstore option: \"given\" to another store: it is for redisstore.New alone (RL303)"},
	},
	{
		Code:     "RL304",
		Fields:   []string{"withtimeout", "withbreaker", "withprefix", "withdenycache", "withlease", "withmaxkeys", "withwindow", "new timeout", "new failures", "new pause"},
		Messages: []string{"WithTimeout: 0s must be above 0 (RL304)"},
		Advice:   "For the default leave the option out. 0 turns off the deny cache and leases alone.",
	},
	{
		Code:     "RL305",
		Fields:   []string{"withclock"},
		Messages: []string{"WithClock: <nil> must be a function (RL305)"},
	},
	{
		Code:   "RL306",
		Fields: []string{"new limiter", "limiters", "allow limiter", "limiter", "allowtogether charges"},
		Messages: []string{
			"New limiter: <nil> must be a limiter from core.NewLimiter (RL306)",
			"AllowTogether charges[0].Limiter: <nil> must be a limiter from NewLimiter (RL306)",
		},
		Advice: "The error of `core.NewLimiter` was ignored, or the middleware is installed before the limiter is made.",
	},
	{
		Code:     "RL307",
		Fields:   []string{"new key", "key", "join", "firstof"},
		Messages: []string{"New key: <nil> must be a key function, such as ByIP() (RL307)"},
		Advice:   "[Which key](keys-and-trust.md).",
	},
	{
		Code:     "RL308",
		Fields:   []string{"byheader", "bycookie", "byquery", "byparam", "bymetadata", "bytool", "methods", "global", "withpolicyfile"},
		Messages: []string{"ByHeader: \"\" must be the name of a header field: … (RL308)"},
	},
	{
		Code:     "RL309",
		Fields:   []string{"bycontextvalue"},
		Messages: []string{"ByContextValue: <nil> can't be the key of a context value: … (RL309)"},
		Advice:   "Give it the key with which earlier middleware stored the value.",
	},
	{
		Code:     "RL310",
		Fields:   []string{"byrouteof"},
		Messages: []string{"ByRouteOf mux: <nil> must be the mux that the limiter stands in front of (RL310)"},
		Advice:   "Make the mux first: `httplimit.New(limiter, httplimit.ByRouteOf(mux))(mux)`.",
	},
	{
		Code:     "RL311",
		Fields:   []string{"trustproxies"},
		Messages: []string{"TrustProxies: \"10.0.0.0/33\" must be an IP address or a CIDR range, … (RL311)"},
	},
	{
		Code:     "RL312",
		Fields:   []string{"trustheader"},
		Messages: []string{"TrustHeader: \"\" must be the name of a header field, such as \"CF-Connecting-IP\" (RL312)"},
	},
	{
		Code:     "RL313",
		Fields:   []string{"ipv6prefix"},
		Messages: []string{"IPv6Prefix: 0 must be from 1 to 128 bits (RL313)"},
		Advice:   "[What it groups](keys-and-trust.md#ipv6).",
	},
	{
		Code:     "RL314",
		Fields:   []string{"costbycontentlength", "costbycontentlengthor"},
		Messages: []string{"CostByContentLengthOr bytesPerToken: 0 must be at least 1 (RL314)"},
		Advice:   "[Its arguments](middleware.md#options).",
	},
	{
		Code:     "RL315",
		Fields:   []string{"withsettle"},
		Messages: []string{"WithSettle: \"WithRefund\" can't be used together: … (RL315)"},
		Advice:   "Keep `WithSettle`, whose function returns `core.Units{core.Requests: 0}` for a refund.",
	},
	{
		Code:     "RL316",
		Fields:   []string{"newtogether"},
		Messages: []string{"NewTogether: \"WithPlan\" can't be used with several limiters: … (RL316)"},
		Advice:   "[Several limiters](middleware.md#several-limiters).",
	},
	{
		Code:     "RL317",
		Fields:   []string{"withmaxseries", "witheventlog", "withbuckets", "withredisstore", "withmeterprovider"},
		Messages: []string{"promlimit.WithMaxSeries: 0 must be at least 1 (RL317)"},
		Advice:   "promlimit reports this when the collector is registered, otellimit from `New`.",
	},
	{
		Code:     "RL320",
		Fields:   []string{"withcost"},
		Messages: []string{"WithCost: \"llm\" is a policy without a limit that counts requests, … (RL320)"},
	},
	{
		Code:   "RL321",
		Fields: []string{"new authorise", "hosts"},
		Messages: []string{
			"adminlimit.New authorise: <nil> must be a function that says who sent a request: … (RL321)",
			"adminlimit.Config.Hosts: \"localhost:80\" must be a name or an address as in a URL, … (RL321)",
		},
		Advice: "[An example](tools.md#a-page-for-the-one-on-call).",
	},
	{
		Code:   "RL322",
		Fields: []string{"withlimiter", "withkey", "withqueue", "withattempts", "withmaxwait"},
		Messages: []string{
			"ratelimit: clientlimit.WithLimiter limiter: <nil> must be a limiter from core.NewLimiter (RL322)",
			"clientlimit.WithAttempts: 0 must be at least 1 (RL322)",
		},
		Advice: "An option of [clientlimit](client.md#options) can't be used. `WithAttempts(1)` sends nothing again, and `WithMaxWait` bounds waits whose requests have no deadline.",
	},
	{
		Code:     "RL601",
		Messages: []string{"the request has no key (RL601): no header \"x-api-key\""},
		Advice:   "`core.ErrNoKey`; middleware answers 400. If clients may come without it, name another key: `FirstOf(ByHeader(\"X-Api-Key\"), ByIP())`.",
	},
	{
		Code: "RL602",
		Messages: []string{
			"the request's key can't be used (RL602): header \"X-Api-Key\" has several values",
			"the request's key can't be used (RL602): middleware has rewritten the peer's address: \"203.0.113.9\" has no port: …",
		},
		Advice: "`core.ErrBadKey`; middleware answers 400. By a rewritten address clients could choose their buckets: [what to\n" +
			"do](keys-and-trust.md#middleware-that-rewrites-the-address).",
	},
	{
		Code:     "RL603",
		Messages: []string{"store unavailable (RL603): policy \"api\": …"},
		Advice: "`core.ErrUnavailable`: the store could not decide, and the policy fails closed. Middleware answers 503. To decide without Redis choose [another\n" +
			"mode](failure.md).",
	},
	{
		Code:     "RL604",
		Messages: []string{"circuit breaker is open (RL604) after: no connection to …"},
		Advice:   "`core.ErrBreakerOpen`: the store failed [several times in a row](failure.md#how-long-a-request-waits), the last time as `after:` says.",
	},
	{
		Code:     "RL605",
		Messages: []string{"negative cost (RL605): -1 tokens"},
		Advice:   "`core.ErrCost`. To give tokens back use `Refund`.",
	},
	{
		Code:     "RL606",
		Messages: []string{"the cost is not known (RL606)"},
		Advice:   "`core.ErrUnknownCost`, from a cost function. Middleware then takes the smallest Capacity.",
	},
	{
		Code:     "RL607",
		Messages: []string{"cost exceeds the capacity (RL607): 61 tokens"},
		Advice: "`core.ErrCapacity`: ask `Wait` for less, or raise the Capacity by `WithBurst`. Or so many tokens [are promised already](how-it-works.md#debts) that no\n" +
			"wait is long enough: turn callers away with `Allow`.",
	},
	{
		Code:     "RL608",
		Messages: []string{"the wait would exceed the context's deadline (RL608)"},
		Advice:   "`core.ErrDeadline`: `Wait` returns at once and takes nothing.",
	},
	{
		Code:     "RL610",
		Messages: []string{"no limit counts this unit (RL610): \"tokens\""},
		Advice:   "`core.ErrUnit`: often the unit is misspelled on one side, or the limit has no `WithUnit`.",
	},
	{
		Code:     "RL611",
		Messages: []string{"the buckets are on different servers (RL611)"},
		Advice:   "`store.ErrApart`: only authors of stores see it. `AllowTogether` then asks for one bucket after another.",
	},
	{
		Code:     "RL612",
		Messages: []string{"… clock out of range (RL612): 1950-01-01 00:00:00 +0000 UTC is not from 1970 to 17 September 2112"},
		Advice:   "`store.ErrClock` of package core/store: correct `WithClock`. It is not returned for the clock of a Redis server.",
	},
	{
		Code:     "RL613",
		Messages: []string{"… policy \"api\": stored state: the key holds no bucket (RL613)"},
		Advice: "`*store.StateError`: something else, or [another version](operations.md#upgrades), has written to this key. Give the store a prefix of its own\n" +
			"(`redisstore.WithPrefix`), and `Reset` the key.",
	},
	{
		Code:     "RL616",
		Messages: []string{"the decision was undone or settled before (RL616)"},
		Advice:   "`core.ErrSettled`: nothing has changed.",
	},
	{
		Code:     "RL617",
		Messages: []string{"no limiter returned this result (RL617)"},
		Advice:   "`core.ErrNoDecision`: the `core.Result` is zero, or a test made it.",
	},
	{
		Code:     "RL618",
		Messages: []string{"the slots were held for too long, and others have them (RL618)"},
		Advice:   "`core.ErrExpired`: stop the work. Call `Hold` earlier, or choose a longer MaxHold.",
	},
	{
		Code:     "RL619",
		Messages: []string{"slots can't be reserved: use Acquire (RL619)"},
		Advice: "`core.ErrSlots`: nobody knows when a slot will be free, so `Reserve` and `Wait` refuse a policy with a limit in flight.\n" +
			"\n" +
			"```go\n" +
			"res, err := limiter.Acquire(ctx, \"ann\")\n" +
			"if err != nil {\n" +
			"	return // ctx has ended, for example\n" +
			"}\n" +
			"defer res.Release(ctx)\n" +
			"```",
	},
	{
		Code:     "RL622",
		Messages: []string{"ratelimit: not sent to host:api.example.com: ratelimit: too many requests wait already (RL622)"},
		Advice: "`clientlimit.ErrQueueFull`, in a `clientlimit.Error`. More requests come than the service allows. Send fewer, or let more wait by\n" +
			"[`WithQueue`](client.md#options).",
	},
	{
		Code:     "RL701",
		Messages: []string{"a peer that ByIP does not trust sends a proxy's field: … code=RL701 peer=192.0.2.1 …"},
		Advice: "If `peer` is no proxy of yours, a client sent the field, perhaps through a proxy of its own. If it is, as the address of Google's balancer, name\n" +
			"it. [By deployment](keys-and-trust.md#byip-by-deployment).",
	},
	{
		Code:     "RL702",
		Messages: []string{"TrustHeader has no effect because no proxy is trusted: … code=RL702 header=CF-Connecting-IP"},
		Advice:   "Any client can send this header (or Forwarded).",
	},
	{
		Code:     "RL703",
		Messages: []string{"TrustProxies trusts every address, so every client can forge its own: … code=RL703 range=0.0.0.0/0"},
	},
	{
		Code:     "RL704",
		Messages: []string{"a request was charged twice by one policy for the same key; … code=RL704 …"},
		Advice:   "One limiter stands in front of a route twice, often for a group and for a route in it.",
	},
	{
		Code:     "RL705",
		Messages: []string{"ByRoute found no route here, so all such requests share one bucket: … code=RL705 …"},
		Advice:   "The limiter runs before the router. The message ends with what to write in your framework.",
	},
	{
		Code:     "RL706",
		Messages: []string{"two limiters of one store have the same policy name and different limits, so they share buckets: … code=RL706 …"},
		Advice:   "For customers with different limits use [plans](policies.md#plans).",
	},
	{
		Code:     "RL707",
		Messages: []string{"a request was refused because it has no usable key… code=RL707 … error=…"},
		Advice:   "See [RL601](#rl601) and [RL602](#rl602).",
	},
	{
		Code:     "RL708",
		Messages: []string{"shadow mode allowed a request that an enforced policy refuses… code=RL708 policy=api … status=400 …"},
		Advice:   "When you [enforce the policy](introducing-a-limit.md#5-enforce), clients get this `status`. Correct what `error` names.",
	},
	{
		Code:     "RL709",
		Messages: []string{"a request was refused because there is no decision about it… code=RL709 policy=api requests=1 path=/items status=500 error=\"look up user: connection refused\""},
		Advice:   "A function of yours returned `error`, and the client got 500. For a client's mistake return `core.ErrNoKey` or `core.ErrBadKey`.",
	},
	{
		Code:     "RL710",
		Messages: []string{"what a request took could not be settled… code=RL710 policy=api … error=\"ratelimit: negative cost (RL605): -1 requests\""},
		Advice:   "Your `WithSettle` function panicked or returned units that can't be settled, or the store did not answer. The bucket keeps the estimate.",
	},
	{
		Code:     "RL711",
		Messages: []string{"a settle function panicked after the response… code=RL711 panic=\"index out of range\""},
	},
	{
		Code:     "RL712",
		Messages: []string{"Redis does not answer; each policy's OnFailure decides until it is back… code=RL712 error=\"…: connection refused\""},
		Advice: "The breaker opened. On a Cluster and a Ring only keys of this `server` are concerned. The line begins with:\n" +
			"\n" +
			"- `Redis refuses the password or the user`: correct them\n" +
			"- `Redis refuses this user a command or a key`: give the [ACL user](operations.md#the-acl-user) what `error` names\n" +
			"- `this Redis is a replica and takes no writes`: connect to the master, by Sentinel or the address for writes\n" +
			"- `the memory of Redis is full, so it takes no writes`: give it [memory](operations.md#memory-persistence-eviction)\n" +
			"- `Redis takes no writes`: a failed save, or no replica\n" +
			"- `Redis is not ready`: it loads its data, or runs a long script\n" +
			"- `no node of the Cluster serves the key`: slots have no master\n" +
			"- `the client of Redis has no free connection`: raise PoolSize, or give the store its own client\n" +
			"\n" +
			"For `Redis does not answer` look at `error`:\n" +
			"\n" +
			"- `connection refused`: no Redis at this address and port\n" +
			"- `no connection to rediss://… within …`: a firewall, or the port does not speak TLS\n" +
			"- `EOF` at every call: the port speaks TLS: write `rediss://`\n" +
			"- `x509: …`: the certificate is not trusted, or for another name\n" +
			"- `no answer within …`: Redis or the network is slow: raise `redisstore.WithTimeout` if Redis is well\n" +
			"\n" +
			"[`Store.Ping`](operations.md#check-the-connection) finds most of these before the first request.",
	},
	{
		Code:     "RL713",
		Messages: []string{"Redis is back… code=RL713"},
		Advice:   "The end of RL712: the breaker has been closed for a second. On a Cluster and a Ring others may have the lost server's keys.",
	},
	{
		Code:     "RL714",
		Messages: []string{"this Redis drops limits when its memory is full, and a dropped limit is full again: … code=RL714 …"},
		Advice:   "[Why](operations.md#memory-persistence-eviction). `drops` says which limits go.",
	},
	{
		Code:     "RL715",
		Messages: []string{"a limit has never applied, because no request has taken its unit: … code=RL715 policy=api unit=token decisions=2000"},
	},
	{
		Code:     "RL716",
		Messages: []string{"the stored state of a key can't be used, so the policy's OnFailure decides for it; … code=RL716 policy=api …"},
		Advice:   "See [RL613](#rl613). The `Err` of the key's [Observation](observability.md) is this error.",
	},
	{
		Code:     "RL718",
		Messages: []string{"not all exceptions in Redis could be read; those that were read are in force… code=RL718 error=…"},
		Advice: "[FollowExceptions](policies.md#exceptions-while-services-run) asks each second, and logs the first failure of several. A line with a `policy` means\n" +
			"that another version, or someone by hand, wrote its exceptions: `ratelimit list` shows which. Or the policy lacks a limit that an override names.",
	},
	{
		Code:     "RL719",
		Messages: []string{"Redis has lost what operators said; it stays in force, and was put back… code=RL719 policy=api exceptions=1"},
		Advice: "Redis was restarted empty or flushed, evicted [exceptions](policies.md#exceptions-while-services-run), lost a shard, or failed over to a replica\n" +
			"without the last writes. Buckets are full.\n" +
			"\n" +
			"If it could not be put back, a process that starts now does not know it: give the user the [rights of a limiter](operations.md#the-acl-user).",
	},
	{
		Code:     "RL720",
		Messages: []string{"a request has a plan that the policy lacks, so the policy's own limits decide… code=RL720 policy=api … plan=gold"},
		Advice: "The database is ahead of the deployment, or spells the plan in another way. Add it to [`Plans`](policies.md#plans);\n" +
			"[`Reload`](policies.md#change-limits-while-the-service-runs) suffices.",
	},
	{
		Code:     "RL721",
		Messages: []string{"a request asks for more than its limits can ever allow… code=RL721 policy=api … limit=burst cost=50 capacity=20"},
		Advice:   "Every such request is denied, without a Retry-After. Raise the limit's burst, or charge less.",
	},
	{
		Code:     "RL722",
		Messages: []string{"a trusted proxy does not say which address its client has, so all its clients share the proxy's bucket… policy=api code=RL722 … header=Forwarded value=\"for=\\\"0000:db0:0:0:0:0:0:00:0000\\\"\""},
		Advice: "`value` is what the proxy wrote, with its digits shown as 0: here an IPv6 address with a port lacks its brackets. If it is `(missing)`, the\n" +
			"proxy does not set the field, or asks on its own behalf, such as for a health check: that is logged once. [By\n" +
			"deployment](keys-and-trust.md#byip-by-deployment).",
	},
	{
		Code:     "RL723",
		Messages: []string{"this is a proxy that sends a script to the server of its first key: … code=RL723 server=redis://127.0.0.1:6379"},
		Advice:   "Limits hold, but many keys cost Redis more calls: see [proxies that share keys](servers.md#proxies-that-share-keys).",
	},
}
