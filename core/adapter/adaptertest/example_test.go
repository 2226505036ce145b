package adaptertest_test

import (
	"fmt"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
)

// In the suite a code of gRPC and Connect is the status of HTTP that means the
// same.
func ExampleCodeOf() {
	fmt.Println(adaptertest.CodeOf(http.StatusTooManyRequests), adaptertest.StatusOf(8))
	// Output: 8 429
}
