package adaptertest_test

import (
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
)

// A framework with another notation of patterns translates those of an App.
func ExampleColons() {
	fmt.Println(adaptertest.Colons("/items/{id}"))
	// Output: /items/:id
}

// Handlers of an App answer with what FromContext returned.
func ExampleBody() {
	fmt.Println(adaptertest.Body(core.Result{}, false))
	// Output: no result
}
