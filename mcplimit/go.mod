// A module of its own, so that what the SDK requires reaches nobody who does not use it.
module github.com/tokenbucket-go/ratelimit/mcplimit

go 1.26.0

require (
	// Older versions have stateless servers take the session ids that clients make up, so that BySession would limit nobody.
	github.com/modelcontextprotocol/go-sdk v1.7.0
	github.com/tokenbucket-go/ratelimit v0.0.0
)

require github.com/stretchr/testify v1.11.1

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/redis/go-redis/v9 v9.20.0 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/tokenbucket-go/ratelimit => ../
