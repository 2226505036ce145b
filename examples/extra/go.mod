// A module of its own, so that what these examples require, such as gRPC and the MCP SDK, stays out of the graph of the
// library's users.
module github.com/tokenbucket-go/ratelimit/examples/extra

go 1.26.0

require (
	connectrpc.com/connect v1.19.1
	github.com/modelcontextprotocol/go-sdk v1.7.0
	github.com/prometheus/client_golang v1.21.1
	github.com/stretchr/testify v1.11.1
	github.com/tokenbucket-go/ratelimit v0.0.0
	github.com/tokenbucket-go/ratelimit/connectlimit v0.0.0
	github.com/tokenbucket-go/ratelimit/grpclimit v0.0.0
	github.com/tokenbucket-go/ratelimit/mcplimit v0.0.0
	golang.org/x/net v0.62.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260414002931-afd174a4e478
	google.golang.org/grpc v1.82.1
	google.golang.org/grpc/examples v0.0.0-20250407062114-b368379ef8f6
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/klauspost/compress v1.19.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/prometheus/client_model v0.6.1 // indirect
	github.com/prometheus/common v0.63.0 // indirect
	github.com/prometheus/procfs v0.16.0 // indirect
	github.com/redis/go-redis/v9 v9.20.0 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace (
	github.com/tokenbucket-go/ratelimit => ../..
	github.com/tokenbucket-go/ratelimit/connectlimit => ../../connectlimit
	github.com/tokenbucket-go/ratelimit/grpclimit => ../../grpclimit
	github.com/tokenbucket-go/ratelimit/mcplimit => ../../mcplimit
)
