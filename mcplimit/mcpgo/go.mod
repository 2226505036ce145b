// A module of its own, so that mcp-go reaches nobody who uses another SDK, and no other SDK reaches users of mcp-go.
module github.com/tokenbucket-go/ratelimit/mcplimit/mcpgo

go 1.26.0

require (
	github.com/mark3labs/mcp-go v1.0.0
	github.com/stretchr/testify v1.11.1
	github.com/tokenbucket-go/ratelimit v0.0.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/google/jsonschema-go v0.4.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2 // indirect
	github.com/spf13/cast v1.7.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/text v0.42.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/tokenbucket-go/ratelimit => ../..
